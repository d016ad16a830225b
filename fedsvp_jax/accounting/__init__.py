"""What was spent: composition per client and per adversary, on the host."""

from fedsvp_jax.accounting.composition import composed_epsilon, max_uploads
from fedsvp_jax.accounting.guarantees import Guarantee, guarantees
from fedsvp_jax.accounting.ledger import Ledger

__all__ = ["Guarantee", "Ledger", "composed_epsilon", "guarantees", "max_uploads"]
