"""Flower: a client mod, and a ready ClientApp (the extra `flower`).

The server is Flower's own, with any strategy that averages (examples/flower). A reply
holds the noised arrays and the number of training examples, nothing else: a loss or an
accuracy that the training reports would leave without noise. So messages other than
train are answered with an error. A request that the client refuses is answered with an
error too, which Flower's strategies leave out of their average.
"""

from collections.abc import Callable

try:
    import flwr.app as fl
    from flwr.clientapp import ClientApp
except ImportError as error:
    raise ImportError(
        "fedsvp_jax.deploy.flower needs flwr: pip install 'fedsvp_jax[flower]'"
    ) from error

from .answer import Answer, Arrays, Trained, answer
from .client import Client
from .refusal import Refused, refusing
from .site import Site

_PRECONDITION_FAILED = 6  # flwr's ErrorCode.MOD_FAILED_PRECONDITION


class PrivacyMod:
    """A mod around the training of a ClientApp: `ClientApp(mods=[PrivacyMod(…)])`.

    The inner app returns one ArrayRecord with the keys of the one that it was sent,
    and, where the noise follows R, one MetricRecord with `contribution-ratio`. What
    else it reports stays with the client. An inner app that fails becomes an update of
    0 with noise, which counts.

    Args:
      site: the site's log, begun once by `fedsvp site init` or `Site.begin`; the number
        of examples with which it was begun is what every reply says.

    A site whose policy is `attribute_records` answers nothing: `Client` asks its query
    (`client_app`).
    """

    def __init__(self, site: Site) -> None:
        self.site = site

    def __call__(
        self,
        message: fl.Message,
        context: fl.Context,
        call_next: Callable[[fl.Message, fl.Context], fl.Message],
    ) -> fl.Message:
        """The inner app's reply, clipped, noised and counted; or an error."""

        def answered(received: Arrays, round_num: int) -> Answer:
            self.site.policy.check_takes_updates()
            return answer(
                self.site,
                received,
                lambda: _read_training(message, call_next(message, context)),
                round_num=round_num,
            )

        return _reply(message, answered)


def client_app(make_client: Callable[[fl.Context], Client]) -> ClientApp:
    """A ClientApp around a ready client.

    Args:
      make_client: builds it, for example from `context.node_config`; called once.
    """
    app = ClientApp()
    clients: list[Client] = []

    @app.train()
    def train(message: fl.Message, context: fl.Context) -> fl.Message:
        def answered(received: Arrays, round_num: int) -> Answer:
            if not clients:
                clients.append(make_client(context))
            return clients[0].answer(received, round_num)

        return _reply(message, answered)

    return app


def replied(message: fl.Message, reply: Callable[[], fl.Message]) -> fl.Message:
    """The reply to a request to train, or the error that the server gets instead."""
    try:
        with refusing():
            if message.metadata.message_type != fl.MessageType.TRAIN:
                raise Refused("this client answers requests to train alone")
            return reply()
    except Refused as refusal:
        error = fl.Error(code=_PRECONDITION_FAILED, reason=str(refusal))
        return fl.Message(error, reply_to=message)


def _reply(
    message: fl.Message, answered: Callable[[Arrays, int], Answer]
) -> fl.Message:
    """The message that leaves: arrays and their number of examples, or an error.

    `answered` takes what was received and the round, and returns upload and record.
    """

    def reply() -> fl.Message:
        received = _arrays(message)
        arrays, record = answered(received.to_numpy_ndarrays(), _round_of(message))
        (name,) = message.content.array_records
        by_name = zip(received, map(fl.Array, arrays), strict=True)
        metrics = fl.MetricRecord({"num-examples": record["num_examples"]})
        content = {name: fl.ArrayRecord(dict(by_name)), "metrics": metrics}
        return fl.Message(fl.RecordDict(content), reply_to=message)

    return replied(message, reply)


def _read_training(message: fl.Message, inner: fl.Message) -> Trained:
    """The training in the inner app's reply; whatever it lacks raises."""
    if inner.has_error():
        raise ValueError(f"the inner app ended with an error: {inner.error.reason}")
    trained = _arrays(inner)
    if [*_arrays(message)] != [*trained]:
        raise ValueError("the inner app changed the arrays' names")
    ratios = [
        metrics["contribution-ratio"]
        for metrics in inner.content.metric_records.values()
        if "contribution-ratio" in metrics
    ]
    return Trained(trained.to_numpy_ndarrays(), *ratios)


def _arrays(message: fl.Message) -> fl.ArrayRecord:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise Refused(f"a message must hold one ArrayRecord, got {len(records)}")
    return records[0]


def _round_of(message: fl.Message) -> int:
    """The round, from 1: FedAvg's, moved by `first-round`."""
    for config in message.content.config_records.values():
        if "server-round" in config:
            return int(config["server-round"]) + int(config.get("first-round", 1)) - 1
    raise Refused("the request does not say its server-round")
