"""H2 and H3: runs with one proved ε that spend it by Shapley values, or evenly."""

import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsvp_jax import federation, run
from fedsvp_jax.attacks import membership
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation import loading
from fedsvp_jax.run.trained_model import load_model

from ..attack.membership import members
from . import spread

_PROVED = {
    "delta": 1e-5,
    "target_delta": 1e-5,
    "total_accounting": "pld",
    "solve": "noise",
    "model": "mlp",
    "cohorts": "cyclic",
}
# H2: whole clients are hidden from the server.
CLIENTS = _PROVED | {
    "dataset": "digits",
    "sensitivity": "update_clip",
    "relation": "add_remove",
    "l2_norm_clip": 0.3,
    "num_rounds": 30,
    "total_epsilon": 30.0,
}
# H3: the records of the digit 5 are hidden from the server.
RECORDS = _PROVED | {
    "dataset": "mnist",
    "class_share": 0.03,
    "local_epochs": 1,
    "sensitivity": "attribute_records",
    "private_clip": 0.3,
    "private_weight": 0.6,
    "private_margin": 3.0,
    "calibration": "analytic",
    "num_rounds": 50,
    "eval_every": 2,
    "total_epsilon": 4.0,
}
CONSTANT = {"mechanism": "nbafl", "calibration": "analytic"}


def as_printed(release: str) -> dict[str, Any]:
    """Settings of FedSVA's noise, which follows R as `release` tells it."""
    return {
        "mechanism": "fedsva",
        "contribution_release": release,
        "allow_large_epsilon": True,  # the ledger counts z by PLD, whatever ε claims
    }


def spread_by(release: str, release_epsilon: float = 0.1) -> dict[str, Any]:
    """Settings of a budget that is spread by R, told as `release` says."""
    return {
        "mechanism": "spread_guided",
        "calibration": "analytic",
        "contribution_release": release,
        "release_epsilon": release_epsilon,
    }


def membership_area(config: ExperimentConfig, folder: pathlib.Path) -> float:
    """Area under the ROC curve of the loss threshold on the final model.

    Members are all records that some client trained on, the others the test records.
    """
    dataset = loading.load_dataset(config)
    split = federation.build([config], dataset).data.split
    member = members(split, len(dataset.train_labels))[0]
    trained = load_model(folder)

    def confidences(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        logits, _ = trained.model.apply(
            trained.params,
            trained.stats,
            preprocessing.normalize(jnp.asarray(inputs)),
            train=False,
            key=None,
        )
        return np.asarray(membership.confidences(logits, jnp.asarray(labels)))

    import scipy.stats

    inside = confidences(dataset.train_inputs[member], dataset.train_labels[member])
    outside = confidences(dataset.test_inputs, dataset.test_labels)
    wins = scipy.stats.mannwhitneyu(inside, outside).statistic
    return float(wins) / (len(inside) * len(outside))


def compute(
    settings: dict[str, Any], seed: int, data_dir: pathlib.Path, folder: pathlib.Path
) -> dict[str, Any]:
    """One run's row: accuracies, the claim, and for H2 the attack's area."""
    spread.register()
    place = None if settings["dataset"] == "digits" else str(data_dir / "mnist")
    config = resolve(ExperimentConfig(**settings, seed=seed, data_dir=place))
    summary = run.train(config, folder, resume=True)
    promised = [
        one for one in summary["guarantees"] if one["method"].startswith("promise")
    ]
    whole_clients = settings["sensitivity"] == "update_clip"
    return {
        "accuracy": summary["final5_accuracy"],
        "private_accuracy": summary["final5_private_accuracy"],
        "membership_area": membership_area(config, folder) if whole_clients else None,
        "total_epsilon": config.total_epsilon,
        "spent_pld": summary["epsilon_spent"]["pld"],
        "delta": summary["target_delta"],
        "status": promised[0]["status"],
        "uploads": summary["most_uploads"],
        "params_sha256": summary["params_sha256"],
    }
