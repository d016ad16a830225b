"""The cells of the table: a run each, and the row that is kept of it."""

import math
from typing import Any, NamedTuple

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.run.files import plain

DELTA = 1e-5
# One client holds all the data; its 1 % for validation is not read.
_CENTRAL = {
    "num_clients": 1,
    "cohort_size": 1,
    "num_rounds": 1,
    "train_fraction": 0.99,
}
_COHORT = {"num_clients": 100, "cohort_size": 10, "num_rounds": 30, "local_epochs": 2}
_COMMON = {
    "num_hbc_clients": 0,
    "num_attributes": 1,
    "partition": "iid",
    "split": "by_position",
}
# DP-SGD with momentum at the server: a round is one step on Poisson batches, so that
# the noise may be shared.
_POISSON = {
    "relation": "add_remove",
    "batches": "poisson",
    "local_steps": 1,
    "server_momentum": 0.9,
    "l2_norm_clip": 0.1,
    "eval_every": 25,
}
_SHARED = {
    **_POISSON,
    "cohort_size": 100,
    "train_fraction": 0.99,
    "noise_trust": "secure_aggregation",
}
FULL_BATCH = 1_000_000  # more than any client holds: one step is an epoch


class Cell(NamedTuple):
    """One run.

    Attributes:
      part: the file of its row, which is the data set's name.
      model: of `settings.FEATURE_MODELS`.
      epsilon: of the run, at `DELTA`, against the server, or where the cohort shares
        its noise against one curious client; inf without noise.
      settings: those that differ from the other cells'.
      seeds: how many runs.
    """

    part: str
    model: str
    clients: int
    epsilon: float
    settings: dict[str, Any]
    seeds: int = 1

    @property
    def name(self) -> str:
        """Of its folder, and the key of its rows."""
        left_out = self.settings.get("relation") == "add_remove"
        more = "_left_out" if left_out else ""
        more = "_poisson" if "batches" in self.settings else more
        return f"{self.part}_{self.model}_{self.clients}_{self.epsilon:g}{more}"


def _central(part: str, model: str, epsilon: float, seeds: int, **more: Any) -> Cell:
    return Cell(part, model, 1, epsilon, more, seeds)


def _cohort(part: str, model: str, seeds: int, **more: Any) -> Cell:
    return Cell(part, model, 100, math.inf, more, seeds)


def _shared(part: str, model: str, seeds: int, **more: Any) -> Cell:
    return Cell(part, model, 100, 3, _SHARED | more, seeds)


def _whole(
    part: str,
    model: str,
    epsilon: float,
    seeds: int,
    *,
    epochs: int,
    rate: float,
    clip: float,
    **more: Any,
) -> Cell:
    """Noised epochs of one client, in one upload; B, if named, is below its size."""
    steps = {"local_epochs": epochs, "learning_rate": rate, "l2_norm_clip": clip}
    return _central(part, model, epsilon, seeds, **steps, **more)


_DRAWN = _POISSON | {"num_rounds": 366, "eval_every": 61}
_LARGE = _DRAWN | {"batch_size": 8192, "learning_rate": 4.0}
_MNIST = _POISSON | {"num_rounds": 375, "learning_rate": 8.0}
CELLS = (
    _central("digits", "scatter_linear", math.inf, 5, local_epochs=40),
    _whole("digits", "scatter_linear", 3, 5, epochs=40, rate=20.0, clip=0.1),
    _central("mnist", "scatter_linear", math.inf, 3, local_epochs=10),
    _cohort("mnist", "scatter_linear", 3),
    _whole(
        "mnist", "scatter_linear", 3, 3, epochs=20, rate=4.0, clip=1.0, batch_size=8192
    ),
    _central("mnist", "scatter_linear", 3, 3, **_MNIST, batch_size=4096),
    _shared("mnist", "scatter_linear", 5, **_MNIST, batch_size=41),
    _central("cifar10", "lite0_linear", math.inf, 5, local_epochs=20),
    _cohort("cifar10", "lite0_linear", 3),
    *(
        _whole(
            "cifar10",
            "lite0_linear",
            epsilon,
            5,
            epochs=120,
            rate=4.0,
            clip=1.0,
            relation=relation,
        )
        for epsilon in (1, 3)
        for relation in ("replace_one", "add_remove")
    ),
    _central(
        "cifar10",
        "scatter_linear",
        math.inf,
        1,
        local_epochs=20,
        learning_rate=0.003,
    ),
    _central("cifar10", "scatter_linear", 3, 1, **_LARGE),
    _central("cifar10", "scatter_channels_linear", 3, 3, **_LARGE),
    _shared("cifar10", "scatter_channels_linear", 5, **_LARGE | {"batch_size": 82}),
    _whole(
        "cifar10",
        "scatter_linear",
        3,
        1,
        epochs=20,
        rate=0.5,
        clip=1.0,
        batch_size=8192,
    ),
)


def config_of(cell: Cell, seed: int, **given: Any) -> ExperimentConfig:
    """The resolved settings of one run.

    Without noise, FedAvg by batches of 50 (of 600 where one client holds all). With
    noise, one upload of `local_epochs` full-batch steps whose gradients are clipped
    example by example and noised such that PLD gives exactly ε.
    """
    settings: dict[str, Any] = {**_COMMON, "dataset": cell.part, "model": cell.model}
    settings |= _CENTRAL if cell.clients == 1 else _COHORT
    if math.isinf(cell.epsilon):
        settings |= {"mechanism": "none", "l2_norm_clip": math.inf}
        settings["batch_size"] = 600 if cell.clients == 1 else 50
        settings["learning_rate"] = 0.1
    else:
        settings |= {
            "mechanism": "gaussian",
            "sensitivity": "per_example",
            "batch_size": FULL_BATCH,
            "total_epsilon": cell.epsilon,
            "target_delta": DELTA,
            "solve": "noise",
            "total_accounting": "pld",
        }
    settings |= cell.settings | given | {"seed": seed}
    return resolve(ExperimentConfig(**settings))


def row_of(cell: Cell, seed: int, summary: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run."""
    config = config_of(cell, seed)
    shared = config.noise_trust == "secure_aggregation"
    against = "honest-but-curious client" if shared else "server"
    proved = [
        row
        for row in summary["guarantees"]
        if row["adversary"] == against and row["method"] == "pld"
    ]
    claim = proved[0] if proved else {}
    kept = ("local_epochs", "num_rounds", "batch_size", "learning_rate", "l2_norm_clip")
    settings = plain({name: getattr(config, name) for name in kept})
    return {
        "name": cell.name,
        "dataset": cell.part,
        "model": cell.model,
        "clients": cell.clients,
        "seed": seed,
        "accuracy": summary["final_accuracy"],
        **{
            name: claim.get(name) for name in ("epsilon", "delta", "status", "relation")
        },
        "against": claim.get("adversary"),
        "batches": config.batches,
        "server_momentum": config.server_momentum,
        "params_sha256": summary["params_sha256"],
        **{
            name: None if value == math.inf else value
            for name, value in settings.items()
        },
    }
