"""Flower: a client mod, and a ready ClientApp and ServerApp (the extra `flower`).

A reply holds the noised arrays and the number of training examples, nothing else: a
loss or an accuracy that the training reports would leave without noise. So messages
other than train are answered with an error. A request that the client refuses is
answered with an error too, which Flower's strategies leave out of their average.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

try:
    from flwr.app import (
        Array,
        ArrayRecord,
        ConfigRecord,
        Context,
        Error,
        Message,
        MessageType,
        MetricRecord,
        RecordDict,
    )
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg, Result
except ImportError as error:
    raise ImportError(
        "fedsvp_jax.deploy.flower needs flwr: pip install 'fedsvp_jax[flower]'"
    ) from error

from fedsvp_jax.deploy.client import Client
from fedsvp_jax.deploy.policy import Policy
from fedsvp_jax.deploy.privatize import Arrays, Trained, answer
from fedsvp_jax.deploy.randomness import SECRET, Randomness
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.deploy.state import StateFile

_log = logging.getLogger(__name__)
_PRECONDITION_FAILED = 6  # flwr's ErrorCode.MOD_FAILED_PRECONDITION


class PrivacyMod:
    """A mod around the training of a ClientApp: `ClientApp(mods=[PrivacyMod(…)])`.

    The inner app returns one ArrayRecord with the keys of the one that it was sent, and
    one MetricRecord with `num-examples` and, where the noise follows R,
    `contribution-ratio`.

    Args:
      policy: what the client agreed to; not `attribute_records`, whose query `Client`
        asks (`client_app`).
      state_path: the client's state file.
      randomness: `SECRET`; `Seeded` for tests.

    Raises:
      ValueError: a private query.
    """

    def __init__(
        self,
        policy: Policy,
        state_path: str | os.PathLike[str],
        *,
        randomness: Randomness = SECRET,
    ) -> None:
        if policy.is_query:
            raise ValueError(
                "sensitivity must not be attribute_records with PrivacyMod, which does "
                "not know the private records: use client_app"
            )
        self._policy, self._file = policy, StateFile(state_path, policy)
        self._randomness = randomness

    def __call__(
        self,
        message: Message,
        context: Context,
        call_next: Callable[[Message, Context], Message],
    ) -> Message:
        """The inner app's reply, clipped, noised and counted; or an error."""

        def upload(
            received: Sequence[np.ndarray], round_num: int
        ) -> tuple[Arrays, int, dict[str, Any]]:
            told: list[int] = []

            def train() -> Trained:
                inner = call_next(message, context)
                if inner.has_error():
                    raise Refused("the client's training ended with an error")
                keys = [list(_only_arrays(one).keys()) for one in (message, inner)]
                if keys[0] != keys[1]:
                    raise Refused("the client's training changed the arrays' names")
                (metrics,) = inner.content.metric_records.values()
                told.append(int(metrics["num-examples"]))
                ratio = metrics.get("contribution-ratio")
                trained = _only_arrays(inner).to_numpy_ndarrays()
                contribution = None if ratio is None else float(ratio)
                return Trained(received, trained, told[0], contribution)

            arrays, record = answer(
                self._file,
                received,
                train,
                policy=self._policy,
                round_num=round_num,
                randomness=self._randomness,
            )
            return arrays, told[0], record

        return _reply(message, upload)


def client_app(make_client: Callable[[Context], Client]) -> ClientApp:
    """A ClientApp around a ready client.

    Args:
      make_client: builds it, for example from `context.node_config`; called once.
    """
    app = ClientApp()
    made: list[Client] = []

    @app.train()
    def train(message: Message, context: Context) -> Message:
        def upload(
            received: Sequence[np.ndarray], round_num: int
        ) -> tuple[Arrays, int, dict[str, Any]]:
            if not made:
                made.append(make_client(context))
            arrays, record = made[0].answer(received, round_num)
            return arrays, made[0].num_examples, record

        return _reply(message, upload)

    return app


def server_app(
    initial_arrays: Callable[[Context], Arrays],
    finish: Callable[[Context, Arrays], None],
) -> ServerApp:
    """A ServerApp with Flower's FedAvg over all nodes.

    It reads `num-server-rounds`, `min-nodes`, `round-timeout` (seconds) and
    `first-round` (the number of its first round; after a crash, the next one that the
    clients have not answered) from the run's settings.

    Args:
      initial_arrays: the model to start from (`Client.initial_arrays`).
      finish: takes the arrays after the last round.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        settings: Mapping[str, Any] = context.run_config
        nodes = int(settings["min-nodes"])
        strategy = FedAvg(
            fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes
        )
        result: Result = strategy.start(
            grid,
            _record_of(initial_arrays(context)),
            num_rounds=int(settings["num-server-rounds"]),
            timeout=float(settings["round-timeout"]),
            train_config=ConfigRecord({"first-round": int(settings["first-round"])}),
        )
        finish(context, result.arrays.to_numpy_ndarrays())

    return app


def _reply(
    message: Message,
    upload: Callable[[Sequence[np.ndarray], int], tuple[Arrays, int, dict[str, Any]]],
) -> Message:
    """The message that leaves: arrays and their number of examples, or an error."""
    try:
        if message.metadata.message_type != MessageType.TRAIN:
            raise Refused("this client answers requests to train alone")
        received = _only_arrays(message)
        arrays, num_examples, record = upload(
            received.to_numpy_ndarrays(), _round_of(message)
        )
        _log.info("upload: %s", record)  # the client's own log
    except Refused as refusal:
        return _error(message, str(refusal))
    except Exception:  # its words may tell of the data
        _log.exception("no upload")
        return _error(message, "the client failed; its own log says why")
    names = list(received.keys())
    content = RecordDict(
        {
            next(iter(message.content.array_records)): _record_of(arrays, names),
            "metrics": MetricRecord({"num-examples": num_examples}),
        }
    )
    return Message(content, reply_to=message)


def _only_arrays(message: Message) -> ArrayRecord:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise Refused(f"a message must hold one ArrayRecord, got {len(records)}")
    return records[0]


def _round_of(message: Message) -> int:
    """The round, from 1: FedAvg's, moved by `first-round`."""
    for config in message.content.config_records.values():
        if "server-round" in config:
            return int(config["server-round"]) + int(config.get("first-round", 1)) - 1
    raise Refused("the request does not say its server-round")


def _record_of(arrays: Arrays, names: Sequence[str] | None = None) -> ArrayRecord:
    names = names or [f"{place:04d}" for place in range(len(arrays))]
    return ArrayRecord(
        {
            name: Array(np.asarray(leaf))
            for name, leaf in zip(names, arrays, strict=True)
        }
    )


def _error(message: Message, reason: str) -> Message:
    _log.warning("refused: %s", reason)
    return Message(Error(code=_PRECONDITION_FAILED, reason=reason), reply_to=message)
