"""The server: it gets the sum of a cohort's whole numbers, and nothing else."""

import dataclasses
import pathlib

import numpy as np
from flwr.app import Context
from flwr.server import Grid, LegacyContext, ServerApp, ServerConfig
from flwr.server.workflow import DefaultWorkflow

from fedsvp_jax.data.tables.schema import read_schema
from fedsvp_jax.deploy.flower_sums import SumStrategy, SumWorkflow
from sums.federation import server_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds; keeps the model with its schema, and of every round the sum."""
    told = context.run_config
    folder, rounds = pathlib.Path(str(told["folder"])), int(told["num-server-rounds"])
    first = server_of(folder, int(told["hospitals"]))
    strategy = SumStrategy(first.policy, first.initial_arrays)
    workflow = SumWorkflow(first.policy, timeout=float(told["round-timeout"]))
    config = ServerConfig(num_rounds=rounds)
    DefaultWorkflow(fit_workflow=workflow)(
        grid, LegacyContext(context, config, strategy)
    )
    model = first.trained_model(strategy.arrays, rounds)
    schema = read_schema(folder / "schema.toml")
    dataclasses.replace(model, schema=schema).save(folder / "model.safetensors")
    sums = {
        f"{round_num}-{place}": leaf
        for round_num, leaves in enumerate(strategy.sums, 1)
        for place, leaf in enumerate(leaves)
    }
    np.savez(folder / "sums.npz", **sums)
