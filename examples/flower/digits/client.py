"""One client: its own records, its log, its noise."""

import os
import pathlib

from flwr.app import Context

from digits.federation import MIN_NUM_EXAMPLES, settings
from fedsvp_jax.deploy import SECRET, Client, Seeded, data_of, make_policy
from fedsvp_jax.deploy.flower import client_app
from fedsvp_jax.federation.federated_data import federate, load_data


def client_of(number: int, method: str, folder: pathlib.Path) -> Client:
    """Yours reads its own records instead: `own_data(config, Dataset(...))`."""
    config = settings(method)
    dealt = federate([config], load_data(config))
    seed = os.environ.get("FEDSVP_TEST_SEED")  # for tests: hides nothing, and says so
    return Client(
        make_policy(config, min_num_examples=MIN_NUM_EXAMPLES[method]),
        data_of(dealt, number),
        folder / f"client-{number}.json",
        randomness=Seeded(int(seed), number) if seed else SECRET,
    )


def make_client(context: Context) -> Client:
    """The client of a SuperNode, by what its own operator configured."""
    return client_of(
        int(context.node_config["partition-id"]),
        str(context.run_config["method"]),
        pathlib.Path(str(context.node_config["state"])),
    )


app = client_app(make_client)
