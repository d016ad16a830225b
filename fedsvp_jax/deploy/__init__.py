"""Out of the simulator: the same mechanism, ledger and promise in a real federation.

    make_policy, Policy   policy.py      what a client agrees to beforehand
    answer                answer.py      a round, counted on the disk before it trains
    private_round         answer.py      the same around a loop of one's own
    Site                  site.py        what was spent, in a log that only grows
    Witness               witness.py     countersigns it, from elsewhere
    SECRET, Seeded        noise.py       the system's entropy, or a test's seed
    Client                client.py      a ready client for models of this package
    flower                the adapter to Flower, imported by its own name

How to run a federation: docs/deploy.md.
"""

from .answer import Trained, answer, begin_round, end_round, private_round
from .client import Client, data_of, own_data
from .noise import SECRET, Randomness, Seeded
from .policy import Policy, make_policy
from .refusal import Refused
from .site import Site, fingerprint
from .witness import Witness

__all__ = [
    "SECRET",
    "Client",
    "Policy",
    "Randomness",
    "Refused",
    "Seeded",
    "Site",
    "Trained",
    "Witness",
    "answer",
    "begin_round",
    "data_of",
    "end_round",
    "fingerprint",
    "make_policy",
    "own_data",
    "private_round",
]
