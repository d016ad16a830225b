"""What server and clients agree on before the first round, and the clients' logs.

    cd examples/flower_sums; python -m sums.federation FOLDER

begins the five logs. In a federation every site does this for itself.
"""

import os
import pathlib
import sys

from fedsvp_jax import ExperimentConfig, resolve
from fedsvp_jax.deploy import SECRET, Client, Randomness, Seeded, data_of
from fedsvp_jax.federation import loading
from fedsvp_jax.federation.federated_data import federate

CLIENTS, MIN_NUM_EXAMPLES = 5, 50


def settings() -> ExperimentConfig:
    """Three of five shares are noise enough: one may drop out, one be curious."""
    return resolve(
        ExperimentConfig(
            dataset="digits",
            model="mlp",
            num_clients=CLIENTS,
            num_hbc_clients=1,
            cohort_size=CLIENTS,
            num_rounds=2,
            mechanism="nbafl",
            sensitivity="update_clip",
            relation="add_remove",
            calibration="analytic",
            noise_trust="secure_aggregation",
            noise_sampler="discrete",
            colluders=2,
            total_epsilon=8.0,
            solve="noise",
        )
    )


def randomness(number: int) -> Randomness:
    """Secret; a seed is for tests, hides nothing, and says so."""
    seed = os.environ.get("FEDSVP_TEST_SEED")
    return Seeded(int(seed), number) if seed else SECRET


def client_of(number: int, folder: pathlib.Path) -> Client:
    """Yours reads its own records instead: `own_data(config, Dataset(...))`."""
    config = settings()
    return Client(
        config,
        data_of(federate([config], loading.load_data(config)), number),
        folder / f"client-{number}",
        min_num_examples=MIN_NUM_EXAMPLES,
        randomness=randomness(number),
    )


if __name__ == "__main__":
    for each in range(CLIENTS):
        client_of(each, pathlib.Path(sys.argv[1])).begin()
