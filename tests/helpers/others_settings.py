"""Settings of other engines, as their users write them, and the noise of each."""

import math
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
    """A file, and what its first noise is.

    Attributes:
      engine, name, text: of the file.
      std: that the engine draws with.
      multiplier: z, for adding or removing.
      facts: what the user says besides.
    """

    engine: str
    name: str
    text: str
    std: float
    multiplier: float
    facts: dict[str, Any] | None = None


SITE = {"examples": 1000, "epochs": 2.0}
CASES = {
    "local": Case(
        "flower",
        "client.py",
        LOCAL.format("1.0, 2.0, 0.5, 1e-5"),
        classical(2.0, 0.5, 1e-5),
        classical(2.0, 0.5, 1e-5),
    ),
    "local, alias and class": Case(
        "flower",
        "client.py",
        "from flwr.clientapp.mod import LocalDpMod as Dp\n"
        "class C:\n    eps = 1 / 4\n"
        "delta = 1e-5\nmod = Dp(2.0, sensitivity=-(-4), epsilon=C.eps, delta=delta)\n",
        classical(4.0, 0.25, 1e-5),
        classical(2.0, 0.25, 1e-5),
    ),
    "local, given": Case(
        "flower",
        "client.py",
        LOCAL.format("clip(), 1.0, 2.0, 1e-6"),
        classical(1.0, 2.0, 1e-6),
        classical(1.0, 2.0, 1e-6) / 3,
        {"overrides": {"clipping_norm": 3.0}},
    ),
    "fixed": Case(
        "flower",
        "server.py",
        CENTRAL.format("Server", "Fixed", "1.5, 0.4, num_sampled_clients=20"),
        1.5 * 0.4 / 20,
        1.5,
    ),
    "fixed, weights": Case(
        "flower",
        "server.py",
        CENTRAL.format("Client", "Fixed", "1.5, 0.4, 20"),
        1.5 * 0.4 / 20,
        1.5 / 4,
        {"largest_weight": 0.2},
    ),
    "adaptive": Case(
        "flower",
        "server.py",
        CENTRAL.format(
            "Server",
            "Adaptive",
            "noise_multiplier=1.0, num_sampled_clients=40, clipped_count_stddev=2.0",
        ),
        (1 - 1 / 16) ** -0.5 * 0.1 / 40,
        (1 - 1 / 16 + 1 / 4) ** -0.5,  # one client moves the count by 1, not by 1/2
    ),
    "adaptive, by default": Case(
        "flower",
        "server.py",
        CENTRAL.format("Client", "Adaptive", "1.0, 40, 0.5"),
        (1 - 1 / 16) ** -0.5 * 0.5 / 40,
        (1 - 1 / 16 + 1 / 4) ** -0.5,
    ),
    "flip": Case(
        "flare",
        "config_fed_client.json",
        FLARE.format(FLIP.format("")),
        classical(1e-4, 10, 1e-5),
        classical(1e-4, 10, 1e-5),
    ),
    "flip, arguments": Case(
        "flare",
        "config_fed_client.json",
        FLARE.format(FLIP.format('"clipping_norm": 0.5, "epsilon": 5, "delta": 1e-6')),
        classical(1e-4, 5, 1e-6),
        classical(1e-4, 5, 1e-6) / 0.5,
    ),
    "percentile": Case(
        "flare",
        "config_fed_client.json",
        FLARE.format('{"path": "nvflare.app_common.filters.PercentilePrivacy"}'),
        0.0,
        0.0,
    ),
    "sparse vector": Case(
        "flare",
        "config_fed_client.json",
        FLARE.format('{"name": "SVTPrivacy", "args": {"gamma": 0.1}}'),
        2 * 0.1 * 700 / 70,
        math.inf,
        {"parameters": 7000},
    ),
    "sparse vector, its share": Case(
        "flare",
        "config_fed_client.json",
        FLARE.format(
            '{"name": "SVTPrivacy", "args": {"gamma": 0.02, "fraction": 0.5, '
            '"noise_var": 0.3}}'
        ),
        2 * 0.02 / 0.3,
        math.inf,
        {"parameters": 6000},
    ),
    "sparse vector, its epsilon": Case(
        "flare",
        "config_fed_client.json",
        FLARE.format(
            '{"path": "nvflare.app_common.filters.SVTPrivacy", "args": '
            '{"gamma": 1, "fraction": 0.2, "epsilon": 2, "epsilon_release": 50}}'
        ),
        2 * 1.0 * 1000 / 50,
        math.inf,
        {"parameters": 5000},
    ),
    "poisson": Case(
        "opacus",
        "client.py",
        OPACUS.format("", "noise_multiplier=1.1, max_grad_norm=0.8"),
        0.88,
        1.1,
        SITE,
    ),
    "shuffled": Case(
        "opacus",
        "client.py",
        OPACUS.format(
            "", "noise_multiplier=2.0, max_grad_norm=1.0, poisson_sampling=False"
        ),
        2.0,
        2.0,
        SITE,
    ),
    "with epsilon": Case(
        "opacus",
        "client.py",
        OPACUS.format(
            "_with_epsilon",
            "target_epsilon=3.0, target_delta=1e-5, epochs=2, max_grad_norm=1.0",
        ),
        0.9178,  # get_noise_multiplier of opacus 1.6: tests/deploy/test_engines.py
        0.9178,
        SITE,
    ),
    "with epsilon, the last batch dropped": Case(
        "opacus",
        "client.py",
        OPACUS.replace("batch_size=50", "batch_size=300, drop_last=True").format(
            "_with_epsilon",
            "target_epsilon=1.5, target_delta=1e-6, epochs=4, max_grad_norm=0.5",
        ),
        1.8752,  # 1.8945 by opacus, which stops within 0.01 of the ε
        3.7505,
        SITE,
    ),
    "by the engine's RDP": Case(
        "opacus",
        "client.py",
        OPACUS.replace("PrivacyEngine()", "PrivacyEngine(accountant='rdp')").format(
            "", "noise_multiplier=0.6, max_grad_norm=5.0"
        ),
        3.0,
        0.6,
        SITE,
    ),
    "pfl": Case(
        "pfl",
        "train.py",
        "m = GaussianMechanism(0.4, 3.0)\n",
        1.2,
        3.0,
    ),
    "pfl, once": Case(
        "pfl",
        "train.py",
        "m = GaussianMechanism.construct_single_iteration(0.4, 2.0, 1e-5)\n",
        0.4 * 1.9938,
        1.9938,
    ),
    "pfl, accountant": Case(
        "pfl",
        "train.py",
        ACCOUNTED.format("50, 0.01, epsilon=None, delta=1e-6, noise_parameter=0.8"),
        0.32,
        0.8,
    ),
    "pfl, scaled": Case(
        "pfl",
        "train.py",
        ACCOUNTED.format("50, 1.0, delta=1e-6, noise_parameter=8.0, noise_scale=0.5"),
        1.6,
        4.0,
    ),
    "laplace": Case(
        "pfl", "train.py", "m = LaplaceMechanism(0.5, epsilon=2.0)\n", 0.25, 0.5
    ),
    "toml": Case(
        "toml",
        "dp.toml",
        TOML.format("gaussian", 5.0, "[stated]\nepsilon = 3.0\ndelta = 1e-5\n"),
        5.0,
        5.0,
    ),
    "toml, laplace": Case("toml", "dp.toml", TOML.format("laplace", 0.5, ""), 0.5, 0.5),
}
