"""The attacks that `python -m experiments.attack` runs, one module each.

A module has its manual as docstring, DEFAULTS (settings whose default differs from
`fedsvp_jax.config` for this attack), `define_flags()` for the flags that only it
reads, and `run(values, config)`, the work. Beside them: `pieces` keeps finished parts,
`page` writes what was measured into the docs.
"""
