"""The attacks that `fedsvp attack` runs, one module each.

The module of an attack holds its manual as docstring, `DEFAULTS` (settings whose
default differs from `fedsvp_jax.config` for this attack), `define_flags()` for the
flags that only this attack reads, and `prepare(values, config)`, which checks the
settings and returns the attack's `Work`.
"""
