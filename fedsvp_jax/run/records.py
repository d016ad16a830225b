"""The account and the files' rows from a call's metrics."""

from typing import Any

import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.round.state import ClientMetrics, RoundMetrics


def valid_clients(metrics: RoundMetrics) -> ClientMetrics:
    """The metrics of the cohort's places that a client filled, ascending by id."""
    return cell_of(metrics.clients, np.flatnonzero(metrics.clients.client_id >= 0))


def record_round(account: Account, metrics: RoundMetrics) -> Account:
    """The account after one round's uploads, from what was applied."""
    clients = valid_clients(metrics)
    return account.record(clients.client_id, clients.noise, clients.weight)


def round_row(metrics: RoundMetrics, *, round_num: int) -> Record:
    """A line of metrics.jsonl without the ε spent; `round_num` counts from 1."""
    clients = valid_clients(metrics)
    _, _, ratio, clipped, degenerate, *_ = clients.estimation or [()] * 5
    multiplier = np.asarray(clients.noise.noise_multiplier)  # inf: of public data

    def mean(values: Any) -> float | None:
        numbers = np.asarray(values, np.float64)
        return float(numbers.mean()) if len(numbers) else None

    row: Record = {
        "round": round_num,
        "test_accuracy": metrics.test_accuracy,
        "test_loss": metrics.test_loss,
        "private_accuracy": metrics.private_accuracy,
        "worst_tenth_accuracy": metrics.worst_tenth_accuracy,
        "num_clients": len(clients.client_id),
        "noise_multiplier_mean": mean(multiplier[~np.isinf(multiplier)]),
        "noise_std_mean": mean(clients.noise.noise_std),
        "step_noise_std_mean": mean(clients.noise.step_noise_std),
        "noise_l2": mean(clients.noise.noise_l2),
        "aggregate_noise_l2": metrics.aggregate_noise_l2,
        "update_l2": mean(clients.update_l2),
        "num_clipped_updates": int(np.sum(clients.noise.clipped > 0)),
        "contribution_ratio_mean": mean(ratio),
        "num_clipped_ratios": int(np.sum(clipped)),
        "num_degenerate_ratios": int(np.sum(degenerate)),
        "diverged_clients": clients.client_id[~clients.finite],
        "model_finite": metrics.model_finite,
    }
    if metrics.validation_accuracy is not None:
        row["validation_accuracy"] = metrics.validation_accuracy
        row["validation_loss"] = metrics.validation_loss
    return row


_OF_ESTIMATES = ("shapley_errors", "shapley_margins", "ratio_error", "ratio_margin")


def client_rows(
    account: Account, metrics: RoundMetrics, *, round_num: int
) -> list[Record]:
    """The lines of clients.jsonl of one round: what was counted and estimated.

    `epsilon` is what the account counts: of a claim about the average, that of the
    cohort that there was, which may be smaller than a whole one.

    `noise_std` is the std of the noise on the upload, `step_noise_std` that of noise
    in each local step (clipping `per_example`); the other one is 0.
    """
    clients = valid_clients(metrics)
    epsilons = account.counted(clients.noise, clients.weight).epsilon
    rows = []
    for place, client_id in enumerate(clients.client_id):
        client = cell_of(clients, place)
        noise = vars(client.noise) | {"epsilon": np.float32(epsilons[place])}
        del noise["clipped"]  # num_clipped_updates in metrics.jsonl counts these
        row = {
            "round": round_num,
            "client": client_id,
            "num_examples": client.num_examples,
            "weight": client.weight,
            "update_l2": client.update_l2,
            **noise,
        }
        if (estimation := client.estimation) is not None:
            row |= {
                "utilities": estimation.utilities,
                "shapley_values": estimation.shapley_values,
                "contribution_ratio": estimation.contribution_ratio,
                "released_ratio": client.released_ratio,
                "clipped": estimation.clipped,
                "degenerate": estimation.degenerate,
            }
            if estimation.shapley_errors is not None:  # the values are estimates
                row |= {name: getattr(estimation, name) for name in _OF_ESTIMATES}
        rows.append(row)
    return rows


def check_finite(metrics: RoundMetrics, *, round_num: int, mechanism: str) -> None:
    """Stops at the first round whose uploads or model hold NaN or infinity.

    Raises:
      FloatingPointError: names the mechanism, the round and the first client.
    """
    clients = valid_clients(metrics)
    bad = clients.client_id[~clients.finite]
    if not len(bad) and metrics.model_finite:
        return
    subject = f"the upload of client {bad[0]}" if len(bad) else "the server's model"
    count = f" ({len(bad)} of {len(clients.finite)} uploads do)" if len(bad) > 1 else ""
    raise FloatingPointError(
        f"mechanism {mechanism} diverged: {subject} in round {round_num} holds NaN, "
        f"infinity or a norm beyond float32{count}; a smaller learning_rate or "
        "l2_norm_clip, or a larger epsilon, may help"
    )


def diverged(row: Record) -> bool:
    """Whether a line of metrics.jsonl or results.jsonl tells of NaN or infinity."""
    return len(row.get("diverged_clients", ())) > 0 or not row.get("model_finite", True)


# By the first of these that rows have a number for, rounds are compared. A data set
# with targets has no accuracy; of the losses the lowest is the best.
_COMPARED = ("validation_accuracy", "test_accuracy", "validation_loss", "test_loss")


def score_summary(rows: list[Record]) -> Record:
    """Test scores in the best round, mean and std of the last five evaluated rounds.

    A row has its number `round` and the scores of `round_row`, None where unknown.
    """

    def seen(name: str) -> list[float]:
        return [row[name] for row in rows if row.get(name) is not None]

    def mean(name: str) -> float | None:
        values = seen(name)[-5:]
        return float(np.mean(values)) if values else None

    accuracies = seen("test_accuracy")
    best_by = next((name for name in _COMPARED if seen(name)), "")
    best: Record = (min if best_by.endswith("loss") else max)(
        (row for row in rows if row.get(best_by) is not None),
        key=lambda row: row[best_by],
        default={},
    )
    return {
        "best_round": best.get("round"),
        "best_by": best_by or None,
        "best_accuracy": best.get("test_accuracy"),
        "best_loss": best.get("test_loss"),
        "final5_accuracy": mean("test_accuracy"),
        "final5_std": float(np.std(accuracies[-5:])) if accuracies else None,
        "final_accuracy": accuracies[-1] if accuracies else None,
        "final5_loss": mean("test_loss"),
        "final5_private_accuracy": mean("private_accuracy"),
        "final5_worst_tenth_accuracy": mean("worst_tenth_accuracy"),
    }
