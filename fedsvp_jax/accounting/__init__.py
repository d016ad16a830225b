"""Privacy accounting: one account per run or client, and the claims made of it."""

from fedsvp_jax.accounting.account import Account
from fedsvp_jax.accounting.composition import composed_epsilon
from fedsvp_jax.accounting.participation import OtherCosts, Participation
from fedsvp_jax.accounting.promise import Allowance, Plan

__all__ = [
    "Account",
    "Allowance",
    "OtherCosts",
    "Participation",
    "Plan",
    "composed_epsilon",
]
