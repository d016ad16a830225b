"""What docs/one_attribute.md registers: federations, arms, settings, worth.

All arms train a linear layer on scattering features of MNIST. The digit 5 is the
private attribute. A federation deals each training image to one client.
"""

import dataclasses
from typing import Any

from fedsvp_jax.config import ExperimentConfig, resolve

SEEDS = tuple(range(12))
EPSILON, DELTA = 3.0, 1e-5  # of the whole run, against the server, by PLD
WORTH = 0.5  # points of accuracy: the smallest gain that is worth a weaker promise
CLIENTS = (20, 100, 400)  # the fewer, the more private records a client has
ARMS = ("attribute records", "all records", "left out", "FedAvg")

_COMMON: dict[str, Any] = {
    "dataset": "mnist",
    "model": "scatter_linear",
    "partition": "iid",
    "num_hbc_clients": 0,
    "cohorts": "cyclic",
    "num_rounds": 60,
    "max_uploads": 6,
    "eval_every": 4,
}
_PROVED = {"total_accounting": "pld", "solve": "noise", "total_epsilon": EPSILON}
_QUERY = {"sensitivity": "attribute_records", "private_from": 10}
_ARMS: dict[str, dict[str, Any]] = {
    "attribute records": {
        "mechanism": "nbafl",
        "calibration": "analytic",
        "delta": DELTA,
        "private_layers": "all",
    }
    | _QUERY
    | _PROVED,
    "all records": {
        "mechanism": "gaussian",
        "sensitivity": "per_example",
        "target_delta": DELTA,
        "batch_size": 1_000_000,  # more than any client has: a step is an epoch
    }
    | _PROVED,
    "left out": {"mechanism": "none", "private_weight": 0.0} | _QUERY,
    "FedAvg": {"mechanism": "none"},
}


def _query(*, clip: float, weight: float) -> dict[str, Any]:
    return {"private_clip": clip, "private_weight": weight, "private_margin": 3.0}


def _steps(*, epochs: int, rate: float, clip: float) -> dict[str, Any]:
    return {"local_epochs": epochs, "learning_rate": rate, "l2_norm_clip": clip}


# Chosen with seed 100, which is no row (docs/one_attribute.md counts the trials).
_CHOSEN: dict[tuple[str, int], dict[str, Any]] = {
    ("attribute records", 20): _query(clip=0.1, weight=0.3),
    ("attribute records", 100): _query(clip=0.1, weight=0.6),
    ("attribute records", 400): _query(clip=0.1, weight=1.0),
    ("all records", 20): _steps(epochs=4, rate=4.0, clip=0.3),
    ("all records", 100): _steps(epochs=1, rate=1.0, clip=1.0),
    ("all records", 400): _steps(epochs=1, rate=4.0, clip=0.3),
}


def config(
    arm: str, clients: int, seed: int, data_dir: str | None = None, **given: Any
) -> ExperimentConfig:
    """The resolved settings of one run; a tenth of the clients trains in each round.

    Raises:
      ValueError: the settings do not fit together.
    """
    federation = {"num_clients": clients, "cohort_size": clients // 10}
    chosen = _CHOSEN.get((arm, clients), {})
    settings = _COMMON | federation | _ARMS[arm] | chosen | given
    return resolve(
        dataclasses.replace(ExperimentConfig(**settings), seed=seed, data_dir=data_dir)
    )
