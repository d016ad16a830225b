"""The server: Flower's FedAvg, which sees noised uploads alone."""

import tempfile

import numpy as np
from flwr.app import Context

from digits.federation import MIN_NUM_EXAMPLES, settings
from fedsvp_jax.deploy import Client, data_of
from fedsvp_jax.deploy.flower import server_app
from fedsvp_jax.federation import loading
from fedsvp_jax.federation.federated_data import federate


def initial_arrays(context: Context) -> list[np.ndarray]:
    """The model before round 1, as every client would make it."""
    method = str(context.run_config["method"])
    config = settings(method)
    dealt = federate([config], loading.load_data(config))
    with tempfile.TemporaryDirectory() as folder:
        client = Client(
            config,
            data_of(dealt, 0),
            f"{folder}/state.json",
            min_num_examples=MIN_NUM_EXAMPLES[method],
        )
        return client.initial_arrays


def finish(context: Context, arrays: list[np.ndarray]) -> None:
    """Keeps the final model."""
    np.savez(str(context.run_config["output"]), *arrays)


app = server_app(initial_arrays, finish)
