"""What server and clients agree on before the first round."""

import os
import pathlib

from fedsvp_jax import ExperimentConfig, resolve
from fedsvp_jax.deploy import SECRET, Client, Seeded, data_of, make_policy
from fedsvp_jax.federation.federated_data import federate, load_data

ROUNDS, SITES = 5, 3
MIN_NUM_EXAMPLES = 90  # of any site
SETTINGS = {
    "dataset": "digits",
    "model": "mlp",
    "num_clients": SITES,
    "num_hbc_clients": 1,
    "cohort_size": SITES,
    "num_rounds": ROUNDS,
    "mechanism": "fedsva",
    "epsilon": 0.5,
}


def make_client(number: int, folder: pathlib.Path) -> Client:
    """Yours reads the site's own records instead: `own_data(config, Dataset(...))`."""
    config = resolve(ExperimentConfig(**SETTINGS))
    dealt = federate([config], load_data(config))
    seed = os.environ.get("FEDSVP_TEST_SEED")  # for tests: hides nothing, and says so
    return Client(
        make_policy(config, min_num_examples=MIN_NUM_EXAMPLES),
        data_of(dealt, number),
        folder / f"site-{number + 1}.json",
        randomness=Seeded(int(seed), number) if seed else SECRET,
    )
