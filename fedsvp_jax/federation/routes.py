"""The proved routes of tables: what `train --goal` and `DPClassifier` both set."""

from fedsvp_jax.core.files import toml_beside

# In the order of the file.
PROMISE, ROWS, IN_MEMORY = toml_beside(__file__, "routes.toml").values()
