"""The files of a run that are kept, and why: assets/disclosure.toml.

What leaves a client, how it is counted and what is public are tables of the docs.
"""

import tomllib
from typing import Any

from fedsvp_jax.report import page

EXPERIMENTER: list[dict[str, Any]] = tomllib.loads(page.asset("disclosure.toml"))[
    "experimenter"
]  # of `files` and `why`
