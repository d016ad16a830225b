"""Curves of what the final model does on the test rows of a table.

No ε covers these rows. Unless they are public, a published score costs their privacy;
the note of each plot says what it would tell.
"""

from fedsvp_jax.core.files import Record

from . import read, style, tables
from .plots import Plot, Series

_DIAGONAL = style.Look(style.GREY, "circle", style.SECOND)  # of a model that guesses
_GUESS = Series("diagonal", [0.0, 1.0], [0.0, 1.0], look=_DIAGONAL)


def plots(run: read.RunFiles) -> list[Plot]:
    """ROC and calibration of a model of two classes; none elsewhere."""
    scores: Record = run.summary.get("test_scores") or {}
    if "roc" not in scores:
        return []
    positive = [*scores["counts"]][1]
    roc, bins = scores["roc"], scores["calibration"]
    sizes = [part["rows"] for part in bins]
    shares = [part["positive"] / part["rows"] for part in bins]
    low, high = zip(*map(tables.wilson, shares, sizes), strict=True)
    calibration = Series("model", [b["chance"] for b in bins], shares, low, high)
    return [
        Plot(
            "roc",
            "ROC curve",
            f"Rows of class {positive} that are recognised, by false alarms; on the"
            " diagonal, the model guesses. Published, each step of it tells where one"
            " row stands among the others.",
            f"share of class {positive} recognised",
            [Series("model", roc["false_alarms"], roc["recognised"]), _GUESS],
            "share of other rows called so",
            percent="xy",
        ),
        Plot(
            "calibration",
            "Calibration",
            "Bins of as many rows each, with 95 % intervals; on the diagonal,"
            " probabilities are right. Published, it tells how many rows of a bin are"
            f" {positive}.",
            f"share of class {positive}",
            [calibration, _GUESS],
            f"predicted probability of class {positive}",
            percent="xy",
        ),
    ]
