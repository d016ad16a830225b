"""Flower's app of a federation over tables (the extra `flower`): no code of one's own.

The folder of `tables.propose` names `server` and `client` below. A hospital's SuperNode
has `--node-config 'log="…"'`, with `witness="…"` where that lies elsewhere.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

try:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.server import Grid, LegacyContext, ServerApp, ServerConfig
    from flwr.server.workflow import DefaultWorkflow
except ImportError as error:
    raise ImportError(
        "fedsvp_jax.deploy.flower_tables needs flwr: pip install 'fedsvp_jax[flower]'"
    ) from error

from fedsvp_jax.core.files import make_folder
from fedsvp_jax.deploy import tables
from fedsvp_jax.deploy.answer import Arrays, Trained
from fedsvp_jax.deploy.flower_sums import SumMod, SumStrategy, SumWorkflow
from fedsvp_jax.deploy.noise import SECRET, Randomness
from fedsvp_jax.deploy.site import Site


def client_app(
    randomness: Callable[[Context], Randomness] = lambda _: SECRET,
) -> ClientApp:
    """A hospital: the table that its log names is read once the keys are shared.

    Args:
      randomness: of its noise, by the node's context; another than `SECRET` is for
        tests.
    """

    def private(message: Message, context: Context, call_next: Any) -> Message:
        node, drawn = context.node_config, randomness(context)
        place = (str(node["log"]), str(node["witness"]) if "witness" in node else None)

        def train(received: Arrays, round_num: int) -> Trained:
            return tables.table_client(*place, drawn).train(received, round_num)

        site = Site(place[0], witness=place[1], randomness=drawn)
        return SumMod(site, train)(message, context, call_next)

    app = ClientApp(mods=[private])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        """Never called: the mod trains."""
        raise NotImplementedError

    return app


client = client_app()
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds that are left, and writes the model.

    The folder's `rounds` holds the sum of every round, public as the model is: with
    them a server that was killed goes on.
    """
    settings = context.run_config
    folder = pathlib.Path(str(settings["folder"]))
    first, schema = tables.server_client(folder)
    make_folder(folder / "rounds")
    strategy = SumStrategy(first.policy, first.initial_arrays, folder / "rounds")
    planned = min(int(settings["rounds"]), first.policy.config.num_rounds)
    workflow = SumWorkflow(first.policy, timeout=float(settings["round-timeout"]))
    rounds = ServerConfig(num_rounds=max(planned - strategy.last_round, 0))
    DefaultWorkflow(fit_workflow=workflow)(
        grid, LegacyContext(context, rounds, strategy)
    )
    model = first.trained_model(strategy.arrays, strategy.last_round)
    dataclasses.replace(model, schema=schema).save(folder / tables.MODEL)
