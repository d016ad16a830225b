"""The training of one site. What it sends is made private before it leaves."""

import pathlib
import sys

import nvflare.client as flare
from federation import make_client
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

flare.init()
number = int(flare.get_site_name().removeprefix("site-")) - 1
client = make_client(number, pathlib.Path(sys.argv[1]))
client.site.read()  # the log beside the filter counts these records
while flare.is_running():
    asked = flare.receive()
    received = list(asked.params.values())
    trained = client.train(received, asked.current_round + 1)
    moves = zip(asked.params.items(), trained.arrays, strict=True)
    flare.send(
        FLModel(
            ParamsType.DIFF,
            {name: new - old for (name, old), new in moves},
            meta={"contribution-ratio": float(trained.contribution)},
        )
    )
