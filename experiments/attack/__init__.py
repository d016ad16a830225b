"""The attacks that `fedsvp attack` runs, one module each.

The module of an attack holds its manual as docstring, and `prepare(values, config)`,
which checks the settings and returns the attack's `Work`. attacks.toml has its settings
whose default differs from that of `fedsvp_jax.config`, the flags that only this attack
reads, and those that it refuses.
"""

from fedsvp_jax.core.files import toml_beside

SETTINGS = toml_beside(__file__, "attacks.toml")
