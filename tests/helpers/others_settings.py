"""Settings of other engines, as their users write them, and the noise of each."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

LOCAL = (
    "from flwr.clientapp.mod import LocalDpMod\n"
    "mod = LocalDpMod({})\napp = ClientApp(mods=[mod])\n"
)
CENTRAL = (
    "s = DifferentialPrivacy{}SideFixedClipping(FedAvg(min_train_nodes=20), {})\n"
    "app = ClientApp(mods=[fixedclipping_mod])\n"
)
FLARE = '{{"task_result_filters": [{{"tasks": ["train"], "filters": [{}]}}]}}'
FLIP = '{{"path": "flip.components.LocalDifferentialPrivacy", "args": {{{}}}}}'
OPACUS = (
    "def train(data):\n"
    "    loader = DataLoader(data, batch_size=50)\n"
    "    return PrivacyEngine().make_private{}(module=m, data_loader=loader, {})\n"
)
TOML = 'noise = "{}"\nstd = {}\nclip = 1.0\nrounds = 10\n{}'


def classical(sensitivity: float, epsilon: float, delta: float) -> float:
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


class Case(NamedTuple):
    """A file, and what its first noise is."""

    engine: str
    name: str
    text: str
    std: float  # that the engine draws with
    multiplier: float  # z, for adding or removing
    facts: dict[str, Any] | None = None  # that the user says besides


SITE = {"examples": 1000, "epochs": 2.0, "batch_size": 50}
_CLIENT = partial(Case, "flower", "client.py")
_SERVER = partial(Case, "flower", "server.py")
_FLARE = partial(Case, "flare", "config_fed_client.json")
_OPACUS = partial(Case, "opacus", "client.py", facts=SITE)
_TOML = partial(Case, "toml", "dp.toml")


def _svt(args: str, std: float, parameters: int, name: str = '"name": "') -> Case:
    text = f'{{{name}SVTPrivacy", "args": {{{args}}}}}'
    facts = {"parameters": parameters}
    return _FLARE(FLARE.format(text), std, math.inf, facts)


def _same(make: Callable[..., Case], text: str, std: float) -> Case:
    """Where the clip is 1, the noise has its multiplier as standard deviation."""
    return make(text, std, std)


# Settings files.
CASES = {
    "flip": _same(_FLARE, FLARE.format(FLIP.format("")), classical(1e-4, 10, 1e-5)),
    "flip, arguments": _FLARE(
        FLARE.format(FLIP.format('"clipping_norm": 0.5, "epsilon": 5, "delta": 1e-6')),
        classical(1e-4, 5, 1e-6),
        classical(1e-4, 5, 1e-6) / 0.5,
    ),
    "percentile": _FLARE(
        FLARE.format('{"path": "nvflare.app_common.filters.PercentilePrivacy"}'), 0, 0
    ),
    "sparse vector": _svt('"gamma": 0.1', 2 * 0.1 * 700 / 70, 7000),
    "sparse vector, its share": _svt(
        '"gamma": 0.02, "fraction": 0.5, "noise_var": 0.3', 2 * 0.02 / 0.3, 6000
    ),
    "sparse vector, its epsilon": _svt(
        '"gamma": 1, "fraction": 0.2, "epsilon": 2, "epsilon_release": 50',
        2 * 1.0 * 1000 / 50,
        5000,
        '"path": "nvflare.app_common.filters.',
    ),
    "toml": _same(
        _TOML,
        TOML.format("gaussian", 5.0, "epsilon = 3.0\ndelta = 1e-5\n"),
        5.0,
    ),
    "toml, laplace": _same(_TOML, TOML.format("laplace", 0.5, ""), 0.5),
}

# Programs, whose objects are asked.
PROGRAMS = {
    "local": _same(
        _CLIENT, LOCAL.format("1.0, 2.0, 0.5, 1e-5"), classical(2.0, 0.5, 1e-5)
    ),
    "fixed": _SERVER(
        CENTRAL.format("Server", "1.5, 0.4, num_sampled_clients=20"),
        1.5 * 0.4 / 20,
        1.5 / 20,
    ),
    "fixed, weights": _SERVER(
        CENTRAL.format("Client", "1.5, 0.4, 20"),
        1.5 * 0.4 / 20,
        1.5 / 4,
        {"largest_weight": 0.2},
    ),
    "poisson": _OPACUS(
        OPACUS.format("", "noise_multiplier=1.1, max_grad_norm=0.8"), 0.88, 1.1
    ),
    "by the engine's RDP": _OPACUS(
        OPACUS.replace("PrivacyEngine()", "PrivacyEngine(accountant='rdp')").format(
            "", "noise_multiplier=0.6, max_grad_norm=5.0"
        ),
        3.0,
        0.6,
    ),
}
