"""The server: Flower's own FedAvg, which sees noised uploads alone."""

import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.federation import MIN_NUM_EXAMPLES, settings
from fedsvp_jax.deploy import Client, data_of
from fedsvp_jax.federation import loading
from fedsvp_jax.federation.federated_data import federate

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds, and keeps the final model."""
    told: Mapping[str, Any] = context.run_config
    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_train_nodes=told["min-nodes"],
        min_available_nodes=told["min-nodes"],
    )
    result = strategy.start(
        grid,
        ArrayRecord(initial_arrays(told["method"])),
        num_rounds=told["num-server-rounds"],
        timeout=told["round-timeout"],
        # After a crash: the first round that the clients have not answered.
        train_config=ConfigRecord({"first-round": told["first-round"]}),
    )
    np.savez(told["output"], *result.arrays.to_numpy_ndarrays())


def initial_arrays(method: str) -> list[np.ndarray]:
    """The model before round 1, as every client would make it."""
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
