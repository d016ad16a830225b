"""The attacks that `python -m experiments.attack` runs, one module each.

The module of an attack holds its manual as docstring, `DEFAULTS` (settings whose
default differs from `fedsvp_jax.config` for this attack), `define_flags()` for the
flags that only this attack reads, and `run(values, config)`. A module `NAME_results`
shows an attack's results on the terminal and in pictures.
"""
