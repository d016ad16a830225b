"""What pyproject.toml cannot say: experiments/ and docs/ are installed in the package.

In the repository its commands are `python -m experiments.NAME`; `experiments` at the
top of somebody's site-packages would meet every other folder of that name, so an
installed package has them as `python -m fedsvp_jax.experiments.NAME`. Of the pages the
Markdown is installed with its pictures, whose place `fedsvp` prints; of the studies,
their pages. A link to what is not installed, as to rows of results, becomes its text.
"""

import re
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

CACHES = ["*__pycache__*"]


def folders(name: str) -> list[str]:
    """The folder and those below it, with their data, as packages."""
    return find_namespace_packages(include=[f"{name}*"], exclude=CACHES)


class BuildPages(build_py):
    """Copies the package; installed pages link to what is installed with them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for page in Path(self.build_lib).rglob("*.md"):

            def link_or_text(link: re.Match[str], folder: Path = page.parent) -> str:
                mark, words, target = link.groups()
                if "://" in target or (folder / target.partition("#")[0]).exists():
                    return link[0]
                return f"(picture: {words})" if mark else words

            text = page.read_text(encoding="utf-8")
            text = re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link_or_text, text)
            page.write_text(text, encoding="utf-8")


setup(
    cmdclass={"build_py": BuildPages},
    packages=[
        *folders("fedsvp_jax"),
        *(f"fedsvp_jax.{name}" for name in [*folders("experiments"), *folders("docs")]),
    ],
    package_dir={"fedsvp_jax.experiments": "experiments", "fedsvp_jax.docs": "docs"},
)
