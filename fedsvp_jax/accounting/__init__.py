"""What was spent: composition per client and per adversary, on the host."""

from fedsvp_jax.accounting.allowance import Allowance, allowance
from fedsvp_jax.accounting.composition import composed_epsilon
from fedsvp_jax.accounting.events import EVENTS, FilterCost
from fedsvp_jax.accounting.guarantees import Guarantee, guarantees
from fedsvp_jax.accounting.ledger import Ledger

__all__ = [
    "EVENTS",
    "Allowance",
    "FilterCost",
    "Guarantee",
    "Ledger",
    "allowance",
    "composed_epsilon",
    "guarantees",
]
