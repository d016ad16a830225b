"""Settings of other engines, as their users write them, and the noise of each."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

LOCAL = "from flwr.clientapp.mod import LocalDpMod\nmod = LocalDpMod({})\n"
CENTRAL = "s = DifferentialPrivacy{}Side{}Clipping(FedAvg(), {})\n"
FLARE = '{{"task_result_filters": [{{"tasks": ["train"], "filters": [{}]}}]}}'
FLIP = '{{"path": "flip.components.LocalDifferentialPrivacy", "args": {{{}}}}}'
OPACUS = (
    "def train(data):\n"
    "    loader = DataLoader(data, batch_size=50)\n"
    "    return PrivacyEngine().make_private{}(module=m, data_loader=loader, {})\n"
)
ACCOUNTED = (
    "a = PLDPrivacyAccountant({}, mechanism='gaussian')\n"
    "m = CentrallyAppliedPrivacyMechanism(\n"
    "    GaussianMechanism.from_privacy_accountant(accountant=a, clipping_bound=0.4))\n"
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


SITE = {"examples": 1000, "epochs": 2.0}
_CLIENT = partial(Case, "flower", "client.py")
_SERVER = partial(Case, "flower", "server.py")
_FLARE = partial(Case, "flare", "config_fed_client.json")
_OPACUS = partial(Case, "opacus", "client.py", facts=SITE)
_PFL = partial(Case, "pfl", "train.py")
_TOML = partial(Case, "toml", "dp.toml")


def _svt(args: str, std: float, parameters: int, name: str = '"name": "') -> Case:
    text = f'{{{name}SVTPrivacy", "args": {{{args}}}}}'
    facts = {"parameters": parameters}
    return _FLARE(FLARE.format(text), std, math.inf, facts)


def _same(make: Callable[..., Case], text: str, std: float) -> Case:
    """Where the clip is 1, the noise has its multiplier as standard deviation."""
    return make(text, std, std)


CASES = {
    "local": _same(
        _CLIENT, LOCAL.format("1.0, 2.0, 0.5, 1e-5"), classical(2.0, 0.5, 1e-5)
    ),
    "local, alias and class": _CLIENT(
        "from flwr.clientapp.mod import LocalDpMod as Dp\n"
        "class C:\n    eps = 1 / 4\n"
        "delta = 1e-5\nmod = Dp(2.0, sensitivity=-(-4), epsilon=C.eps, delta=delta)\n",
        classical(4.0, 0.25, 1e-5),
        classical(2.0, 0.25, 1e-5),
    ),
    "local, given": _CLIENT(
        LOCAL.format("clip(), 1.0, 2.0, 1e-6"),
        classical(1.0, 2.0, 1e-6),
        classical(1.0, 2.0, 1e-6) / 3,
        {"overrides": {"clipping_norm": 3.0}},
    ),
    "fixed": _SERVER(
        CENTRAL.format("Server", "Fixed", "1.5, 0.4, num_sampled_clients=20"),
        1.5 * 0.4 / 20,
        1.5,
    ),
    "fixed, weights": _SERVER(
        CENTRAL.format("Client", "Fixed", "1.5, 0.4, 20"),
        1.5 * 0.4 / 20,
        1.5 / 4,
        {"largest_weight": 0.2},
    ),
    "adaptive": _SERVER(
        CENTRAL.format(
            "Server",
            "Adaptive",
            "noise_multiplier=1.0, num_sampled_clients=40, clipped_count_stddev=2.0",
        ),
        (1 - 1 / 16) ** -0.5 * 0.1 / 40,
        (1 - 1 / 16 + 1 / 4) ** -0.5,  # one client moves the count by 1, not by 1/2
    ),
    "adaptive, by default": _SERVER(
        CENTRAL.format("Client", "Adaptive", "1.0, 40, 0.5"),
        (1 - 1 / 16) ** -0.5 * 0.5 / 40,
        (1 - 1 / 16 + 1 / 4) ** -0.5,
    ),
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
    "poisson": _OPACUS(
        OPACUS.format("", "noise_multiplier=1.1, max_grad_norm=0.8"), 0.88, 1.1
    ),
    "shuffled": _same(
        _OPACUS,
        OPACUS.format(
            "", "noise_multiplier=2.0, max_grad_norm=1.0, poisson_sampling=False"
        ),
        2.0,
    ),
    "with epsilon": _same(
        _OPACUS,
        OPACUS.format(
            "_with_epsilon",
            "target_epsilon=3.0, target_delta=1e-5, epochs=2, max_grad_norm=1.0",
        ),
        0.9178,  # get_noise_multiplier of opacus 1.6: tests/deploy/test_engines.py
    ),
    "with epsilon, the last batch dropped": _OPACUS(
        OPACUS.replace("batch_size=50", "batch_size=300, drop_last=True").format(
            "_with_epsilon",
            "target_epsilon=1.5, target_delta=1e-6, epochs=4, max_grad_norm=0.5",
        ),
        1.8752,  # 1.8945 by opacus, which stops within 0.01 of the ε
        3.7505,
    ),
    "by the engine's RDP": _OPACUS(
        OPACUS.replace("PrivacyEngine()", "PrivacyEngine(accountant='rdp')").format(
            "", "noise_multiplier=0.6, max_grad_norm=5.0"
        ),
        3.0,
        0.6,
    ),
    "pfl": _PFL("m = GaussianMechanism(0.4, 3.0)\n", 1.2, 3.0),
    "pfl, once": _PFL(
        "m = GaussianMechanism.construct_single_iteration(0.4, 2.0, 1e-5)\n",
        0.4 * 1.9938,
        1.9938,
    ),
    "pfl, accountant": _PFL(
        ACCOUNTED.format("50, 0.01, epsilon=None, delta=1e-6, noise_parameter=0.8"),
        0.32,
        0.8,
    ),
    "pfl, scaled": _PFL(
        ACCOUNTED.format("50, 1.0, delta=1e-6, noise_parameter=8.0, noise_scale=0.5"),
        1.6,
        4.0,
    ),
    "laplace": _PFL("m = LaplaceMechanism(0.5, epsilon=2.0)\n", 0.25, 0.5),
    "toml": _same(
        _TOML,
        TOML.format("gaussian", 5.0, "[stated]\nepsilon = 3.0\ndelta = 1e-5\n"),
        5.0,
    ),
    "toml, laplace": _same(_TOML, TOML.format("laplace", 0.5, ""), 0.5),
}
