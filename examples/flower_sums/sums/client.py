"""One client: what it sends is masked, and opens only in the sum of all."""

import pathlib
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsvp_jax.deploy import Site
from fedsvp_jax.deploy.flower_sums import SumMod
from sums.federation import client_of, randomness


def private(message: Message, context: Context, call_next: Any) -> Message:
    """Flower's protocol; the records are read once the keys are shared."""
    number = int(context.node_config["partition-id"])
    folder = pathlib.Path(str(context.node_config["state"]))
    mod = SumMod(
        Site(folder / f"client-{number}"),
        lambda received, n: client_of(number, folder).train(received, n),
        randomness=randomness(number),
    )
    return mod(message, context, call_next)


app = ClientApp(mods=[private])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Never called: the mod trains."""
    raise NotImplementedError
