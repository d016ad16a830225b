"""What pyproject.toml cannot say: experiments/ and docs/ are installed in the package.

In the repository its commands are `python -m experiments.NAME`; `experiments` at the
top of somebody's site-packages would meet every other folder of that name, so an
installed package has them as `python -m fedsvp_jax.experiments.NAME`. Of the pages the
Markdown is installed with its pictures, whose place `fedsvp` prints; of the studies,
their pages.
"""

from setuptools import find_namespace_packages, setup

CACHES = ["*__pycache__*"]


def folders(name: str) -> list[str]:
    """The folder and those below it, with their data, as packages."""
    return find_namespace_packages(include=[f"{name}*"], exclude=CACHES)


setup(
    packages=[
        *folders("fedsvp_jax"),
        *(f"fedsvp_jax.{name}" for name in [*folders("experiments"), *folders("docs")]),
    ],
    package_dir={"fedsvp_jax.experiments": "experiments", "fedsvp_jax.docs": "docs"},
)
