"""The noise that others are compared with: DP-FedAvg, and that of the papers' tables.

`mechanisms.registry` knows them by name and loads this room when one is made.
"""

from fedsvp_jax.baselines.nbafl import nbafl_downlink_std
from fedsvp_jax.baselines.schedules import dpa_factor, time_varying_factor

__all__ = ["dpa_factor", "nbafl_downlink_std", "time_varying_factor"]
