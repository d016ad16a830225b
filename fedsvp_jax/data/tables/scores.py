"""Scores of a table's test rows beside accuracy: what an accuracy alone would hide."""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsvp_jax.core.files import Record, plain

from ..partition import rows_by_owner

_LEAST = 1e-12  # of a probability in the log loss
_ROC_POINTS = 101  # at most
_BINS, _ROWS_OF_A_BIN = 10, 20  # of the calibration: at most, and at least
_FEWEST = 10  # rows of a class in the pairs by which two models are compared
BETTER = "better than guessing"
SHARES = np.linspace(0, 1, 10001)  # that an interval may hold
ERRORS = 1.96  # standard errors of a 95 % interval


def auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """P[s₊ > s₋] + P[s₊ = s₋]/2 of a positive and a negative row; None without both.

    The Mann-Whitney statistic over the number of pairs.

    Args:
      scores: (n,) larger for what is thought positive.
      positive: (n,) bool.
    """
    won, pairs = _pairs(scores, positive).sum(1)
    return float(won / pairs) if pairs else None


def _pairs(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """(2, n) each row's pairs with rows of the other kind: how many are ranked right,
    where a tie counts half; and all.
    """
    from scipy.stats import rankdata  # which takes a while to import

    below = rankdata(scores)  # by mid-ranks
    for side in (positive, ~positive):
        below[side] -= rankdata(scores[side])
    pairs = np.where(positive, (~positive).sum(), positive.sum())
    return np.stack([np.where(positive, below, pairs - below), pairs])


def compared(
    chances: np.ndarray, labels: np.ndarray, clients: np.ndarray
) -> Record | None:
    """AUC of two models within clients, and the 95 % interval of their difference.

    A pair is two rows of one client, of a class and of another. With wᵢ, the pairs of
    row i, and dᵢ, how many more of them the first model ranks right, the difference is
    D = Σdᵢ / Σwᵢ, and SE² = Σ(dᵢ - D·wᵢ)² / (Σwᵢ/2)². Of one client this is the
    variance of DeLong, DeLong and Clarke-Pearson (1988), with n in the place of n - 1.

    Scores of different clients are not compared, since each client's own model has an
    intercept of its own.

    Args:
      chances: (2, n, classes) the models' probabilities.
      labels: (n,) in [0, classes).
      clients: (n,) whose each row is.

    Returns:
      pairs; auc, of both models; difference; interval. None where too few rows are in
      a pair for the interval.
    """
    classes = chances.shape[2]
    counts = np.zeros((2, 2, len(labels)))  # by model: pairs ranked right, and all
    ranked = range(int(classes == 2), classes)  # of two, the second says all
    for rows, c in itertools.product(rows_by_owner(clients), ranked):
        for model, of_model in zip(chances, counts, strict=True):
            of_model[:, rows] += _pairs(model[rows, c], labels[rows] == c)
    won, pairs = counts[:, 0], counts[0, 1]
    if np.sort(np.bincount(labels[pairs > 0], minlength=classes))[-2] < _FEWEST:
        return None
    number = pairs.sum() / 2
    areas = won.sum(1) / pairs.sum()
    difference = areas[0] - areas[1]
    error = np.linalg.norm(won[0] - won[1] - difference * pairs) / number
    return {
        "pairs": int(number),
        "auc": areas.tolist(),
        "difference": difference,
        "interval": (difference + np.array([-ERRORS, ERRORS]) * error).tolist(),
    }


def auc_interval(area: float, ones: int, zeros: int) -> tuple[float, float]:
    """The 95 % interval of an AUC on so many positive and other rows.

    All θ with |AUC − θ| ≤ 1.96·SE(θ), SE² being `auc_variance`. At θ = 1/2 this is the
    variance of Mann and Whitney (1947), so an interval above 1/2 is their test's
    verdict.

    Args:
      area: in [0, 1].
      ones: m, at least 1.
      zeros: n, at least 1.
    """
    areas = SHARES[::10]
    error = np.sqrt(auc_variance(areas, ones, zeros))
    likely = areas[abs(area - areas) <= np.maximum(ERRORS * error, areas[1])]
    return likely[0], likely[-1]


def auc_variance(areas: np.ndarray, ones: float, zeros: float) -> np.ndarray:
    """SE² = (θ(1−θ) + (m−1)(θ/(2−θ) − θ²) + (n−1)(2θ²/(1+θ) − θ²)) / mn.

    Of an AUC whose expectation is θ, `areas`, on m `ones` and n `zeros`; Hanley and
    McNeil (1982).
    """
    above, below = areas / (2 - areas), 2 * areas**2 / (1 + areas)
    variance = areas * (1 - areas) + (ones - 1) * (above - areas**2)
    variance += (zeros - 1) * (below - areas**2)
    return variance / (ones * zeros)


def root_interval(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    error: np.ndarray,
    degree: int,
    counts: np.ndarray,
    covariance: np.ndarray,
) -> list[float]:
    """The share θ at which T(θ) = Σ (a − θb)c / degree is 0, from counts with noise.

    Its 95 % interval is all θ with |T(θ)| ≤ 1.96·SE(θ), SE² = error + Σᵢ dᵢᵀ S dᵢ with
    d = a − θb and S the noise's covariance (Fieller 1954).

    Args:
      a: with b, dT/dc of a T of this degree in c; like c, or as broadcast to it.
      b: as a.
      error: by θ of `SHARES`, the variance of T that the rows' sampling alone has.
      degree: 1 or 2.
      counts: (classes, places) c.
      covariance: (places, places) S, of the counts of each class.

    Returns:
      θ where T is nearest to 0, and the ends of its interval.
    """
    slopes = np.stack(np.broadcast_arrays(a, b, counts)[:2])
    at_zero, fall = (slopes * counts).sum((1, 2))
    ((aa, ab), (_, bb)) = np.einsum(
        "aci,ij,bcj->ab", slopes, covariance, slopes, optimize=True
    )
    spread = np.polyval([bb, -2 * ab, aa], SHARES)
    excess = abs(at_zero - SHARES * fall) / degree / np.sqrt(error + spread)
    likely = np.flatnonzero(excess <= max(ERRORS, excess.min()))
    ends = np.clip(likely[[0, -1]] + [-1, 1], 0, len(SHARES) - 1)  # of many rows, too
    return [*map(float, SHARES[[excess.argmin(), *ends]])]


def mean_interval(areas: Sequence[float | None], counts: np.ndarray) -> list[float]:
    """The mean of `auc_interval` over classes, no narrower than that of their mean.

    Args:
      areas: of each class against the rest, or of the last ones; None where a class or
        all others have no row.
      counts: (classes,) rows.
    """
    intervals = [
        auc_interval(area, count, counts.sum() - count)
        for area, count in zip(areas, counts[-len(areas) :], strict=True)
        if area is not None
    ]
    return [*map(float, np.mean(intervals or [(0, 1)], axis=0))]


def verdict(interval: Sequence[float], log_loss: float, guess: float) -> str:
    """What is shown of a model: that it ranks rows, and that its probabilities count.

    It ranks better than guessing if the interval of its AUC lies above 1/2. It is
    `BETTER` if its log loss is also below that of the classes' shares as everyone's
    probabilities: else these say more of a row than the model's do.

    Args:
      interval: of the AUC, 95 %.
      guess: log loss of the shares p, -Σ p ln p.
    """
    if interval[0] <= 0.5:
        return "not shown to be " + BETTER
    return (
        BETTER if log_loss < guess else f"ranks {BETTER}, its probabilities are worse"
    )


def of_table(
    chances: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str] | None,
    clients: Sequence[str] | None = None,
) -> Record:
    """Scores of a model's probabilities, and of guessing the most frequent class.

    Args:
      chances: (n, classes) probabilities.
      labels: (n,) in [0, classes).
      names: of the classes, or None.
      clients: (n,) the name of each row's client; "" where it is none that trained.

    Returns:
      accuracy; guessing, the share of the most frequent class; balanced_accuracy, the
      mean over classes of the share of right rows; auc, of several classes the mean of
      each against the rest; log_loss, the mean of -ln p(label), and
      guessing_log_loss, that of the classes' shares; counts by class; confusion,
      (classes, classes) rows by class and predicted class; of two classes roc and
      calibration; by_client; auc_interval, of 95 %; and `verdict`.
    """
    predicted, rows = chances.argmax(-1), np.arange(len(labels))
    confusion = np.zeros((chances.shape[1],) * 2, int)
    np.add.at(confusion, (labels, predicted), 1)
    counts, right = confusion.sum(1), predicted == labels
    present = np.flatnonzero(counts)
    ranked = range(int(len(counts) == 2), len(counts))  # of two, the second says all
    areas = [auc(chances[:, c], labels == c) for c in ranked]
    defined = [area for area in areas if area is not None]
    interval = mean_interval(areas, counts)
    shares = counts[present] / len(labels)
    guess = -float(np.sum(shares * np.log(shares)))
    log_loss = float(
        -np.log(np.maximum(chances[rows, labels], _LEAST)).mean(dtype=np.float64)
    )
    scores_of_rows: Record = {
        "accuracy": right.mean(),
        "guessing": counts.max() / len(labels),
        "balanced_accuracy": np.mean(confusion.diagonal()[present] / counts[present]),
        "auc": np.mean(defined) if defined else None,
        "auc_interval": interval,
        "log_loss": log_loss,
        "guessing_log_loss": guess,
        "counts": {
            str(c if names is None else names[c]): n for c, n in enumerate(counts)
        },
        "verdict": verdict(interval, log_loss, guess),
        "confusion": confusion,
    }
    if len(present) == len(counts) == 2:
        scores_of_rows |= _of_two_classes(chances[:, 1], labels == 1)
    if clients is not None:
        masks = {c: np.asarray(clients) == c for c in sorted({*clients} - {""})}
        scores_of_rows["by_client"] = {
            client: {"rows": mask.sum(), "right": right[mask].sum()}
            for client, mask in masks.items()
        }
    return dict(plain(scores_of_rows))


def _of_two_classes(scores: np.ndarray, positive: np.ndarray) -> Record:
    """The ROC curve and the calibration of the second class's probabilities.

    The curve has the shares of negative and of positive rows at or above each
    threshold; the calibration has bins of as many rows each, by rising probability:
    their mean, rows and positive rows.
    """
    from sklearn.metrics import roc_curve  # which takes a second to import

    false_alarms, recognised, _ = roc_curve(positive, scores)
    places = np.unique(
        np.linspace(0, len(recognised) - 1, _ROC_POINTS).round().astype(int)
    )
    bins = max(1, min(_BINS, len(scores) // _ROWS_OF_A_BIN))
    return {
        "roc": {
            "false_alarms": false_alarms[places],
            "recognised": recognised[places],
        },
        "calibration": [
            {
                "chance": float(scores[rows].mean()),
                "rows": len(rows),
                "positive": positive[rows].sum(),
            }
            for rows in np.array_split(np.argsort(scores, kind="stable"), bins)
        ],
    }
