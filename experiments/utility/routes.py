"""The routes that docs/utility.md compares: a name and the settings of a run each.

Add a route by adding an entry; its file is docs/results/utility/SETUP.jsonl.
"""

import dataclasses
from typing import Any

from fedsvp_jax.config import ExperimentConfig, resolve

_MNIST = {
    "dataset": "mnist",
    "model": "mlp",
    "local_epochs": 1,
    "num_rounds": 60,
    "max_uploads": 7,
    "eval_every": 4,
}
_ATTRIBUTE = {
    "sensitivity": "attribute_records",
    "private_clip": 0.1,
    "private_learning_rate": 6.0,
}
_PROVED = {
    "mechanism": "nbafl",
    "calibration": "analytic",
    "delta": 1e-5,
    "total_accounting": "pld",
    "solve": "noise",
}
_SHARED = {"noise_trust": "secure_aggregation"}


@dataclasses.dataclass(frozen=True)
class Route:
    """One row of the table.

    Attributes:
      setup: data set and federation, which all routes of one name share.
      name: what the row is called.
      settings: of the run, without the seed.
      seeds: how many.
    """

    setup: str
    name: str
    settings: dict[str, Any]
    seeds: int = 5

    def config(self, seed: int, data_dir: str | None) -> ExperimentConfig:
        """The resolved settings of one seed."""
        return resolve(ExperimentConfig(**self.settings, seed=seed, data_dir=data_dir))


def _mnist(name: str, **settings: Any) -> Route:
    return Route("mnist_mlp", name, _MNIST | settings)


def _attribute(name: str, total: float, **settings: Any) -> Route:
    return _mnist(name, **(_ATTRIBUTE | _PROVED | {"total_epsilon": total} | settings))


ROUTES = (
    _mnist(
        "private records left out",
        mechanism="none",
        **(_ATTRIBUTE | {"private_learning_rate": 0.0}),
    ),
    _attribute("attribute records", 4.0),
    _attribute("attribute records", 2.0),
    _attribute("attribute records", 1.0, **_SHARED),
    _mnist("attribute records, noise-free", mechanism="none", **_ATTRIBUTE),
    _mnist("all records, noise-free", mechanism="none"),
    _mnist(
        "whole clients (update_clip)",
        **(_PROVED | {"total_epsilon": 4.0}),
        sensitivity="update_clip",
        relation="add_remove",
        l2_norm_clip=1.0,
    ),
)
