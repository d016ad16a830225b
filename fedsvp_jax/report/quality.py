"""What the final model does on the test rows of a table: curves, errors, clients.

No ε covers these rows, unless they are public: whoever publishes a score of them pays
with their privacy. Each part says what it would tell.
"""

from typing import Any

from fedsvp_jax.report import labels, page, read, style, tables
from fedsvp_jax.report.plots import Plot, Series

_FREE = (
    "The test rows are public, or of people who agreed: these scores may be published."
)
_PAID = (
    "The ε of this run pays for one number on the test rows, the accuracy above with"
    " its noise. It does not cover what follows: keep it to yourself."
)
_UNPAID = (
    "No ε covers the test rows, so what follows costs no privacy only while you keep it"
    " to yourself. --publish_scores pays for an accuracy; --test_data tests on rows"
    " that may be published."
)


def plots(run: read.RunFiles) -> list[Plot]:
    """ROC and calibration of a model of two classes; none elsewhere."""
    scores: dict[str, Any] = run.summary.get("test_scores") or {}
    if "roc" not in scores:
        return []
    positive = [*scores["counts"]][1]
    diagonal = Series("guessing", [0.0, 1.0], [0.0, 1.0], look=_DIAGONAL)
    roc = scores["roc"]
    bins = scores["calibration"]
    shares = [part["positive"] / part["rows"] for part in bins]
    ends = [
        tables.wilson(share, part["rows"])
        for share, part in zip(shares, bins, strict=True)
    ]
    return [
        Plot(
            "roc",
            "ROC curve",
            f"Rows of {positive} that are recognised, by false alarms. Published, each"
            " step of it tells where one row stands among the others.",
            "share of other rows called so",
            f"share of {positive} recognised",
            [Series("model", roc["false_alarms"], roc["recognised"]), diagonal],
            percent="xy",
        ),
        Plot(
            "calibration",
            "Calibration",
            "Bins of as many rows each, with 95 % intervals; on the diagonal,"
            " probabilities are right. Published, it tells how many rows of a bin are"
            f" {positive}.",
            f"predicted probability of {positive}",
            f"share of {positive}",
            [
                Series(
                    "model",
                    [part["chance"] for part in bins],
                    shares,
                    [low for low, _ in ends],
                    [high for _, high in ends],
                ),
                Series("right probabilities", [0.0, 1.0], [0.0, 1.0], look=_DIAGONAL),
            ],
            percent="xy",
        ),
    ]


_DIAGONAL = style.Look(style.GREY, "circle", "dot")


def section(run: read.RunFiles, curves: list[Plot]) -> page.Markup:
    """The plots, confusion and accuracy by client; "" without scores of test rows."""
    scores: dict[str, Any] = run.summary.get("test_scores") or {}
    if "confusion" not in scores:
        return ""
    config, names = run.config, [*scores["counts"]]
    cost = _PAID if config.get("publish_scores") else _UNPAID
    body = page.part("paragraphs", [_FREE if config.get("public_test") else cost])
    body += page.part("grid", curves)
    body += page.table(
        ["class", *(f"predicted {name}" for name in names)],
        [[name, *row] for name, row in zip(names, scores["confusion"], strict=True)],
        caption="Confusion: test rows by class and predicted class. Published, each"
        " cell needs noise of its own, since one row moves two of them by 1.",
    )
    clients = scores.get("by_client") or {}
    if len(clients) > 1:
        body += page.table(
            ["client", "test rows", "accuracy, % (95 %)"],
            [
                [name, part["rows"], _accuracy(part["right"], part["rows"])]
                for name, part in clients.items()
            ],
            caption="Accuracy by client, with Wilson's interval over its rows."
            " Published, that of a client with few rows nearly tells their classes.",
        )
    return body


def _accuracy(right: int, rows: int) -> str:
    return labels.with_interval(right / rows, tables.wilson(right / rows, rows))
