"""Odds ratios of a logistic model of two classes, and how far chance moves them."""

from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import Record
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import Schema
from fedsvp_jax.federation import loading, routes
from fedsvp_jax.run.trained_model import MODEL, TrainedModel, read_tensors, schema_of

from .read import RunFiles, read_run

_ROUTE = routes.ROWS | {"mechanism": "gaussian", "model": "logistic", "num_classes": 2}
_LONGEST = 0.5**0.5  # |y - p|, at which the gradient by both logits has the norm 1
Change = tuple[str, Any]
Effect = tuple[*Change, np.floating]


def changes(schema: Schema) -> tuple[list[Change], np.ndarray]:
    """(column, value) of k changes, and (k, 1 + f) what each adds to the inputs.

    A number changes from its lower bound to each knot and to its upper bound, a
    category from the column's first. The intercept, before all, is the inputs
    themselves, with numbers at their lower bounds and the first categories. A 1 stands
    before the inputs.
    """
    from scipy.linalg import block_diag

    names: list[Change] = [("intercept", None)]
    inputs = [np.ones((1, 1))]
    for name, column in schema.features.items():
        points: tuple[Any, ...] = column.values
        if points:
            inputs.append(column.category_features)
        else:
            points = column.bounds[0], *column.knots, column.bounds[1]
            inputs.append(column.scaled(np.array(points)))
        names += [(name, point) for point in points[1:]]
    first = np.concatenate([block[0] for block in inputs])
    return names, np.vstack([first, block_diag(*(x[1:] - x[0] for x in inputs))])


def difference(bias: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """(1 + f,) w = w₁ - w₀ of the classes' weights: the log odds are w·(1, inputs)."""
    return np.subtract(*np.column_stack([bias, kernel])[::-1])


def effects(run: RunFiles, folder: Path) -> list[Effect]:
    """(column, value, log odds ratio of the second class) of each change.

    Returns:
      [] of other models, and before the run's end.
    """
    schema, file, config = schema_of(folder), folder / MODEL, run.config
    is_logistic = config.get("model") == "logistic" and config["num_classes"] == 2
    if run.unfinished or schema is None or not is_logistic or not file.is_file():
        return []
    tensors = read_tensors(file)[0]
    return log_odds(schema, tensors["params/bias"], tensors["params/kernel"])


def log_odds(schema: Schema, bias: np.ndarray, kernel: np.ndarray) -> list[Effect]:
    """The `effects` of a model's weights, (2,) and (f, 2)."""
    names, rows = changes(schema)
    values = zip(names, rows @ difference(bias, kernel), strict=True)
    return [(*name, value) for name, value in values]


def noise_stds(run: RunFiles) -> np.ndarray | None:
    """(T,) standard deviation of each round's noise in the update of a weight of w.

    None where public numbers do not say it, the server does more than to add, or the
    noise is in a client's step (`noise_sampler` gaussian of `per_example`).
    """
    norms = [row.get("aggregate_noise_l2") for row in run.metrics]
    if run.config.get("server_optimizer") != "sgd" or not all(norms):
        return None
    return np.array(norms) * np.sqrt(2 / run.summary["num_parameters"])


def responses(config: Record, pulls: np.ndarray) -> np.ndarray:
    """(T,) or (T, p): how far 1 in the update of each round moves a weight at the end.

    Args:
      config: names η and momentum m of the server: u ← m·u + update, x ← x + η·u.
      pulls: (T,) or (T, p): a weight that is larger by x makes the update of a round
        smaller by so much of x.
    """
    speed = shift = np.zeros(pulls.shape)
    for number, pull in enumerate(pulls):
        speed = config["server_momentum"] * speed - pull * shift
        speed[number] += 1
        shift = shift + config["server_learning_rate"] * speed
    return shift


def standard_errors(
    folder: Path, config: ResolvedConfig, data: Dataset, model: TrainedModel
) -> Record:
    """Standard errors of the log odds ratios of `changes`, from the training rows.

    Row i has the share a_i of the mean gradient by w, and the clipped gradient g_i. The
    mean's derivative by w at the last model is H = QΛQᵀ. At the clients' rates r_t and
    R_t = Q·`responses`(r Λ)_t·Qᵀ, noise n_t moves the last model by Σ_t R_t n_t, and
    other rows, whose mean gradient is off by e, by Σ_t r_t R_t e. Cov e is n times that
    of the a_i g_i (the sandwich of Huber 1967, after so many rounds). The noise's
    standard deviation tells r_t, to which it is in proportion. No noise hides the rows
    in these numbers: they are for the owner.

    Returns:
      `noise`: of noise drawn anew; `noise_and_rows`: of both drawn anew, each row by
      itself. {} where it is not the route's logistic regression of two classes.
    """
    run, parts = read_run(folder), loading.client_parts(config, data)
    shares = [row["weight"] for row in run.clients if row["round"] == 1]
    stds, schema = noise_stds(run), data.schema
    is_route = _ROUTE.items() <= run.config.items() and len(shares) == len(parts)
    if stds is None or schema is None or not is_route:
        return {}
    labels = data.train_labels
    weight = np.array((config.class_weights or "1,1").split(","), float)[labels]
    share = np.zeros(len(labels))
    for of_client, rows in zip(shares, parts, strict=True):
        share[rows] = of_client / max(config.batch_size, len(rows))
    inputs = np.insert(data.train_inputs, 0, 1.0, axis=1).astype(float)
    lengths = np.linalg.norm(inputs, axis=1, keepdims=True)
    clipped = 2 * inputs * np.minimum(1, config.l2_norm_clip / lengths)
    chance = 1 / (1 + np.exp(-inputs @ difference(**model.params)))
    error = weight * (chance - labels)
    slope = share * weight * chance * (1 - chance) * (abs(error) < _LONGEST)
    curvature, axes = np.linalg.eigh(clipped.T @ (inputs * slope[:, None]))
    gradients = clipped * (share * error.clip(-_LONGEST, _LONGEST))[:, None]
    rates = config.learning_rate * stds / stds[0]
    response = responses(run.config, np.outer(rates, curvature))
    along = changes(schema)[1] @ axes
    noise = along**2 @ (stds**2 @ response**2)
    by_row = (along * (rates @ response)) @ (gradients @ axes).T
    both = noise + len(labels) * by_row.var(1)
    return {"noise": np.sqrt(noise), "noise_and_rows": np.sqrt(both)}
