"""Odds ratios of a logistic model of two classes, from the files of its run."""

from pathlib import Path

import numpy as np

from fedsvp_jax.run.trained_model import MODEL, read_tensors, schema_of

from .read import RunFiles

Effect = tuple[str, str | None, np.floating, np.floating]


def effects(run: RunFiles, folder: Path) -> list[Effect]:
    """(column, category, log odds ratio of the second class, ‖c‖) of each change.

    A number changes from its lower to its upper bound, a category (else None) from the
    column's first. With c, what that changes in the model's inputs, and w = w₁ - w₀,
    the difference of the classes' weights, the log odds change by c·w, and the standard
    error of the noise in them is ‖c‖ times that in a weight of w. The intercept, before
    all, is the log odds with numbers at their lower bounds and the first categories.

    Returns:
      [] of other models, and before the run's end.
    """
    schema, file, config = schema_of(folder), folder / MODEL, run.config
    is_logistic = config.get("model") == "logistic" and config["num_classes"] == 2
    if run.unfinished or schema is None or not is_logistic or not file.is_file():
        return []
    tensors = read_tensors(file)[0]
    stacked = np.column_stack([tensors["params/bias"], tensors["params/kernel"]])
    weights, first = np.subtract(*stacked[::-1]), [1.0]
    rows: list[Effect] = []
    for name, column in schema.features.items():
        ends = column.scaled(np.array(column.bounds))[:, None]
        inputs = column.category_features if column.values else ends
        categories = column.values[1:] or [None]
        for category, change in zip(categories, inputs[1:] - inputs[0], strict=True):
            log_odds = change @ weights[len(first) :][: column.width]
            rows.append((name, category, log_odds, np.linalg.norm(change)))
        first += [*inputs[0]]
    return [("intercept", None, first @ weights, np.linalg.norm(first)), *rows]


def largest_noise(run: RunFiles) -> float | None:
    """The largest standard error that noise can have in a weight of w₁ - w₀, by public
    numbers alone; None where these do not say it.

    SE² = 2 Σₜ (hₜ aₜ)² / d of the noise aₜ of round t on all d weights. Server momentum
    β makes of it hₜ = η (1 - β^(T-t+1)) / (1 - β) by round T where no row pulls the
    weight back. A convex loss pulls: along a direction of curvature λ the polynomial hₜ
    (Chebyshev's, of the second kind) is no larger where 0 <= ηλ <= 2(1 + β), as is
    needed for stable steps.
    """
    config, norms = run.config, [row.get("aggregate_noise_l2") for row in run.metrics]
    if config.get("server_optimizer") != "sgd" or None in norms:
        return None
    momentum, ages = config["server_momentum"], np.arange(len(norms), 0, -1)
    grown = config["server_learning_rate"] * (1 - momentum**ages) / (1 - momentum)
    weights = run.summary["num_parameters"]
    return float(np.linalg.norm(grown * np.array(norms)) * np.sqrt(2 / weights))
