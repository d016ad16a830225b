"""The server: it gets the sum of a cohort's whole numbers, and nothing else."""

import pathlib
import tempfile

import numpy as np
from flwr.app import Context
from flwr.server import Grid, LegacyContext, ServerApp, ServerConfig
from flwr.server.workflow import DefaultWorkflow

from fedsvp_jax.deploy.flower_sums import SumStrategy, SumWorkflow
from sums.federation import client_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds; keeps the model, and of every round the sum."""
    told = context.run_config
    with tempfile.TemporaryDirectory() as folder:
        model = client_of(0, pathlib.Path(folder))
    strategy = SumStrategy(model.policy, model.initial_arrays)
    rounds = ServerConfig(num_rounds=int(told["num-server-rounds"]))
    workflow = SumWorkflow(model.policy, timeout=float(told["round-timeout"]))
    DefaultWorkflow(fit_workflow=workflow)(
        grid, LegacyContext(context, rounds, strategy)
    )
    arrays = {f"model-{place}": leaf for place, leaf in enumerate(strategy.arrays)}
    for round_num, leaves in enumerate(strategy.sums, 1):
        arrays |= {f"sum-{round_num}-{k}": leaf for k, leaf in enumerate(leaves)}
    np.savez(str(told["output"]), **arrays)
