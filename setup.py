"""What pyproject.toml cannot say: experiments/ is installed inside the package.

In the repository its commands are `python -m experiments.NAME`; `experiments` at the
top of somebody's site-packages would meet every other folder of that name, so an
installed package has them as `python -m fedsvp_jax.experiments.NAME`.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["fedsvp_jax*"]),
        *(f"fedsvp_jax.{name}" for name in find_packages(include=["experiments*"])),
    ],
    package_dir={"fedsvp_jax.experiments": "experiments"},
)
