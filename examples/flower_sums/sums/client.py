"""One hospital: what it sends is masked, and opens only in the sum of all."""

import pathlib
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedsvp_jax.deploy import Site, Trained
from fedsvp_jax.deploy.flower_sums import SumMod
from sums.federation import client_of, randomness


def private(message: Message, context: Context, call_next: Any) -> Message:
    """Flower's protocol; the records are read once the keys are shared."""
    number = int(context.node_config["partition-id"])
    folder = pathlib.Path(str(context.node_config["state"]))

    def train(received: list[np.ndarray], round_num: int) -> Trained:
        hospitals = int(context.run_config["hospitals"])
        client = client_of(number, folder, hospitals)
        client.site.read()  # the log that the mod opens counts these records
        return client.train(received, round_num)

    site = Site(folder / f"log-{number}", randomness=randomness(number))
    return SumMod(site, train)(message, context, call_next)


app = ClientApp(mods=[private])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Never called: the mod trains."""
    raise NotImplementedError
