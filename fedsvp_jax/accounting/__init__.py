"""Privacy accounting: one account per run or client, and the claims made of it."""

from .account import Account
from .composition import composed_epsilon
from .participation import OtherCosts, Participation
from .promise import Allowance, SpendingPlan

__all__ = [
    "Account",
    "Allowance",
    "OtherCosts",
    "Participation",
    "SpendingPlan",
    "composed_epsilon",
]
