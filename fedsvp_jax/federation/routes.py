"""The proved routes of tables: what `train --goal` and `DPClassifier` both set."""

from fedsvp_jax.core.files import toml_beside

_ROUTES = toml_beside(__file__, "routes.toml")
PROMISE, ROWS = _ROUTES["promise"], _ROUTES["rows"]
