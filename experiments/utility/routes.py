"""The routes of docs/results/utility.md: a name and the settings of a run each.

A setup is a data set, its federation and the private query's settings; all setups have
the same routes, whose rows are in docs/results/utility/SETUP.jsonl. Add a setup by
adding an entry to `SETUPS`. `--preset=proved` of experiments.train is the route
*attribute records* of a setup. `WRITERS` are routes that hide whole clients.
"""

import dataclasses
from typing import Any, NamedTuple

from fedsvp_jax.config import ExperimentConfig, resolve


class Setup(NamedTuple):
    """A data set and its federation."""

    common: dict[str, Any]  # settings of all its routes
    query: dict[str, Any]  # of the private query
    shared: dict[str, Any]  # of the query that differ where the cohort shares its noise


_ROUNDS = {"model": "mlp", "num_rounds": 60, "max_uploads": 6, "eval_every": 4}
_QUERY = {"private_clip": 0.3, "private_from": 10}
_LAST = {"private_clip": 4.0, "private_layers": "last", "private_from": 10}
_ADULT = _ROUNDS | {"dataset": "adult"}
SETUPS = {
    "mnist_mlp": Setup(
        _ROUNDS | {"dataset": "mnist"},
        _QUERY | {"private_weight": 0.6, "private_margin": 3.0},
        {"private_margin": 4.0},
    ),
    "femnist_cnn": Setup(
        {
            "dataset": "femnist",
            "model": "small_cnn",
            "partition": "paper",
            "class_share": 0.01,
            "learning_rate": 0.2,
            "num_rounds": 40,
            "max_uploads": 4,
            "eval_every": 4,
        },
        {
            "private_clip": 0.1,
            "private_layers": "classes",
            "private_weight": 0.6,
            "private_margin": 1.5,
            "private_from": 10,
        },
        {},
    ),
    "adult_sex": Setup(
        _ADULT | {"attributes": "column:sex", "private_attribute": 0},
        _LAST | {"private_weight": 0.5},
        {},
    ),
    "adult_race": Setup(
        _ADULT
        | {"attributes": "column:race", "private_attribute": 2, "num_attributes": 5},
        _LAST | {"private_weight": 0.1},
        {},
    ),
}


def _dealt_once(setup: Setup) -> Setup:
    """The same, with each record at one client."""
    common = {
        name: setup.common[name] for name in setup.common if name != "class_share"
    }
    return setup._replace(common=common | {"partition": "iid"})


SETUPS |= {
    "mnist_once": _dealt_once(SETUPS["mnist_mlp"]),
    "femnist_once": _dealt_once(SETUPS["femnist_cnn"]),
}
_PROVED = {
    "mechanism": "nbafl",
    "calibration": "analytic",
    "delta": 1e-5,
    "total_accounting": "pld",
    "solve": "noise",
}
_ATTRIBUTE = {"sensitivity": "attribute_records"}
_SHARED = {"noise_trust": "secure_aggregation"}
_PRESETS = {"mnist": "mnist_once", "femnist": "femnist_once"}
_NOT_USEFUL = {
    "adult": "training without any private record is as accurate there, and needs no ε",
}


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


def proved_settings(dataset: str) -> dict[str, Any]:
    """What `--preset=proved` sets for a data set, all but --total_epsilon.

    Raises:
      ValueError: no useful route was measured for it.
    """
    if dataset not in _PRESETS:
        why = _NOT_USEFUL.get(dataset, "no useful route was measured")
        raise ValueError(
            f"preset proved is for {' and '.join(_PRESETS)}, got {dataset}: {why}"
        )
    setup = SETUPS[_PRESETS[dataset]]
    return setup.common | setup.query | _ATTRIBUTE | _PROVED


def _routes(name: str, setup: Setup) -> tuple[Route, ...]:
    """The rows of one setup, in the order of the table."""
    asking = setup.query | _ATTRIBUTE

    def row(what: str, **settings: Any) -> Route:
        return Route(name, what, setup.common | settings)

    def proved(total: float, **settings: Any) -> Route:
        promise = {"total_epsilon": total}
        return row("attribute records", **(asking | _PROVED | promise | settings))

    return (
        row(
            "private records left out",
            mechanism="none",
            **(_ATTRIBUTE | {"private_weight": 0.0}),
        ),
        proved(4.0),
        proved(2.0),
        proved(1.0, **_SHARED, **setup.shared),
        row("attribute records, noise-free", mechanism="none", **asking),
        row("all records, noise-free", mechanism="none"),
    )


_WRITERS = {
    "dataset": "femnist",
    "model": "mlp",
    "num_clients": 280,
    "num_hbc_clients": 0,
    "num_attributes": 1,
    "cohorts": "cyclic",
    "local_epochs": 1,
    "batch_size": 20,
    "num_rounds": 100,
    "eval_every": 4,
    "mechanism": "dp_fedavg",
    "l2_norm_clip": 0.1,
}


def _writers(name: str, cohort_size: int, **settings: Any) -> Route:
    what = f"{name}, cohorts of {cohort_size}"
    return Route(
        "femnist_writers", what, _WRITERS | settings | {"cohort_size": cohort_size}
    )


def _writers_proved(cohort_size: int, num_bands: int) -> Route:
    name = "independent noise" if num_bands == 1 else f"correlated, b = {num_bands}"
    settings = {key: _PROVED[key] for key in ("delta", "total_accounting", "solve")}
    return _writers(
        name, cohort_size, total_epsilon=8.0, noise_bands=num_bands, **settings
    )


WRITERS = (
    _writers("clipped, noise-free", 28, noise_multiplier=0.0),
    *(
        _writers_proved(cohort_size, num_bands)
        for cohort_size in (28, 56)
        for num_bands in (1, 280 // cohort_size)
    ),
)

ROUTES = (
    *WRITERS,
    *(route for name, setup in SETUPS.items() for route in _routes(name, setup)),
    Route(
        "mnist_mlp",
        "whole clients (update_clip)",
        SETUPS["mnist_mlp"].common
        | _PROVED
        | {
            "total_epsilon": 4.0,
            "sensitivity": "update_clip",
            "relation": "add_remove",
            "l2_norm_clip": 1.0,
        },
    ),
)
