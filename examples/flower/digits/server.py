"""The server: Flower's own FedAvg, which sees noised uploads alone."""

import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.federation import MIN_NUM_EXAMPLES, settings
from fedsvp_jax.deploy import Client, data_of, make_policy
from fedsvp_jax.federation.federated_data import federate, load_data

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds, and keeps the final model."""
    told: Mapping[str, Any] = context.run_config
    method, rounds = told["method"], told["num-server-rounds"]
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(method, pathlib.Path(folder))
    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_train_nodes=told["min-nodes"],
        min_available_nodes=told["min-nodes"],
    )
    result = strategy.start(
        grid,
        ArrayRecord(model.initial_arrays),
        num_rounds=rounds,
        timeout=told["round-timeout"],
        # After a crash: the first round that the clients have not answered.
        train_config=ConfigRecord({"first-round": told["first-round"]}),
    )
    arrays = result.arrays.to_numpy_ndarrays()
    model.trained_model(arrays, rounds).save(told["output"])


def make_model(method: str, folder: pathlib.Path) -> Client:
    """A client that answers nobody: it makes the first model as every client would."""
    config = settings(method)
    return Client(
        make_policy(config, min_num_examples=MIN_NUM_EXAMPLES[method]),
        data_of(federate([config], load_data(config)), 0),
        folder / "state.json",
    )
