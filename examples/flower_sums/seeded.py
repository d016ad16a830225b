"""For tests alone: hospitals whose noise is of a seed, which hides nothing."""

import os

from flwr.app import Context

from fedsvp_jax.deploy import Seeded
from fedsvp_jax.deploy.flower_tables import client_app


def seeded(context: Context) -> Seeded:
    """Of FEDSVP_TEST_SEED and the node's number."""
    number = int(context.node_config["partition-id"])
    return Seeded(int(os.environ["FEDSVP_TEST_SEED"]), number)


app = client_app(seeded)
