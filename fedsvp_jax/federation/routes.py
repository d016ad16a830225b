"""The proved routes of tables: what `train --goal` and `DPClassifier` both set."""

import tomllib
from pathlib import Path

from fedsvp_jax.core.files import Record

_ROUTES: dict[str, Record] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
PROMISE, ROWS = _ROUTES["promise"], _ROUTES["rows"]
