"""Flower's app of a federation over tables (the extra `flower`): no code of one's own.

The folder of `tables.propose` names `server` and `client` below. A hospital's SuperNode
has `--node-config 'log="…"'`, with `witness="…"` where that lies elsewhere.
"""

import dataclasses
import logging
import pathlib
from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.server import Grid, LegacyContext, ServerApp, ServerConfig
from flwr.server.workflow import DefaultWorkflow

from fedsvp_jax.core.files import Record, make_folder, write_json
from fedsvp_jax.run.published_scores import describe_scores

from . import tables
from .answer import Arrays, Trained
from .flower_sums import NoSumError, SumMod, SumStrategy, SumWorkflow
from .noise import SECRET, Randomness
from .site import LATER, Site

_log = logging.getLogger(__name__)


def client_app(
    randomness: Callable[[Context], Randomness] = lambda _: SECRET,
) -> ClientApp:
    """A hospital: the table that its log names is read once the keys are shared.

    Args:
      randomness: of its noise, by the node's context; another than `SECRET` is for
        tests.
    """
    app = ClientApp()

    @app.train()
    def answer(message: Message, context: Context) -> Message:
        log = str(context.node_config["log"])
        own: Record = {
            "witness": context.node_config.get("witness"),
            "randomness": randomness(context),
        }

        site = Site(log, data=LATER, **own)

        def train(received: Arrays, round_num: int) -> Trained:
            rows = tables.table_rows(site.policy)
            client = tables.table_client(log, rows=rows, **own)
            client.site.read()  # the log that the mod opens counts these rows
            if round_num <= site.policy.config.num_rounds:
                return client.train(received, round_num)
            trained = client.trained_model(received, round_num - 1)
            chances = trained.probabilities(rows.test_inputs)
            counts = site.policy.score_release.count_rows(
                chances, rows.test_labels, rows.test_inputs
            )
            return Trained([counts], clipped=True)

        return SumMod(site, train)(message, context, None)

    return app


client = client_app()
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds that are left, and writes the model of the sums that it opened.

    The folder's `rounds` holds the sum of every round, public as the model is: with
    them a server that was killed goes on.
    """
    settings = context.run_config
    folder = pathlib.Path(str(settings["folder"]))
    first, rounds = tables.server_client(folder), folder / "rounds"
    policy = first.policy
    make_folder(rounds)
    strategy = SumStrategy(policy, first.initial_arrays, rounds)
    planned = min(int(settings["rounds"]), policy.last_round)
    workflow = SumWorkflow(policy, timeout=float(settings["round-timeout"]))
    config = ServerConfig(num_rounds=planned - strategy.last_round)
    try:
        if config.num_rounds > 0:
            DefaultWorkflow(fit_workflow=workflow)(
                grid, LegacyContext(context, config, strategy)
            )
    finally:
        opened = strategy.num_sums + (strategy.scores is not None)
        write_json(
            folder / "status.json",
            {"planned": planned, "begun": strategy.last_round, "opened": opened},
        )
    if strategy.last_round > strategy.num_sums == 0:
        raise NoSumError("no round opened a sum, so there is no model")
    model = first.trained_model(strategy.arrays, strategy.num_sums)
    file = folder / "model.safetensors"
    dataclasses.replace(model, schema=policy.training.declared()).save(file)
    _log.warning(
        f"finished: {strategy.last_round} of {planned} rounds, of which {opened} "
        f"opened a sum; the model is {file}"
    )
    if scores := strategy.scores:
        write_json(folder / "scores.json", policy.says() | scores)
        _log.warning(
            f"{scores['sites']} of {policy.config.cohort_size} hospitals, about "
            f"{scores['rows']} test rows (a count with noise): "
            f"{describe_scores(scores)}"
        )
    elif strategy.last_round > policy.config.num_rounds:
        _log.warning("no scores: the count of test rows failed, and is not repeated")
