"""What pyproject.toml cannot say: experiments/ and docs/ are installed in the package.

In the repository its commands are `python -m experiments.NAME`; `experiments` at the
top of somebody's site-packages would meet every other folder of that name, so an
installed package has them as `python -m fedsvp_jax.experiments.NAME`. Of the pages the
Markdown is installed, whose place `fedsvp` prints.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["fedsvp_jax*"]),
        *(f"fedsvp_jax.{name}" for name in find_packages(include=["experiments*"])),
        "fedsvp_jax.docs",
    ],
    package_dir={"fedsvp_jax.experiments": "experiments", "fedsvp_jax.docs": "docs"},
)
