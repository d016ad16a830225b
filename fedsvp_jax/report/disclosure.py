"""What an adversary may know of a run, and what is kept: assets/disclosure.toml.

What leaves a client, and how it is counted, is a table of the docs.
"""

import tomllib
from typing import Any

from fedsvp_jax.report import page

_LISTS = tomllib.loads(page.asset("disclosure.toml"))
PUBLIC: list[str] = _LISTS["public"]
EXPERIMENTER: list[dict[str, Any]] = _LISTS["experimenter"]  # of `files` and `why`
