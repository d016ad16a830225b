"""Writes the measured parts of docs/shapley.md.

  python -m experiments.shapley.docs_page --keep_studies=digits_n5=runs/shapley

Each file of docs/results/shapley is the results.json of one `experiments.shapley`, and
so is each of docs/results/shapley_in_run, which holds the studies that compare
`in_run:M`. --keep_studies adds or replaces such files.
"""

import functools
import json
import pathlib
import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run.files import write_json

from .. import docs_blocks

IN_RUN = "shapley_in_run"  # folder of the studies that compare values within a run
_REFERENCE = "orders:2"  # the plain sampled estimator
_LATE = 10  # the round from which a model has learned something

Study = dict[str, Any]  # results.json of one `experiments.shapley`


def keep(name: str, folder: pathlib.Path, docs_dir: pathlib.Path) -> None:
    """Copies a study to results/shapley/NAME.json, or to shapley_in_run."""
    study = json.loads((folder / "results.json").read_text())
    in_run = any(name.startswith("in_run:") for name in _names([study]))
    target = docs_dir / "results" / (IN_RUN if in_run else "shapley")
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / f"{name}.json", study)


def studies(docs_dir: pathlib.Path, kind: str = "shapley") -> list[Study]:
    """Every kept study of a folder of results, by name."""
    files = sorted((docs_dir / "results" / kind).glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def groups(kept: Sequence[Study]) -> dict[str, list[Study]]:
    """The studies that differ in nothing but the seed, by what they have in common."""
    found: dict[str, list[Study]] = {}
    for study in kept:
        name = (
            f"{study['dataset']}, N = {study['num_attributes']}, ε = "
            f"{study['epsilon']:g}, C = {study['l2_norm_clip']:g}"
        )
        found.setdefault(name, []).append(study)
    return found


def _rows(study: Study, name: str, *, late: bool | None = None) -> list[dict[str, Any]]:
    """An estimator's rows, of all rounds or of those before or from round 10 on."""
    return [
        row
        for row in study["table"]
        if row["estimator"] == name and late in (None, row["round"] >= _LATE)
    ]


def _names(studies: Sequence[Study]) -> list[str]:
    return list(dict.fromkeys(row["estimator"] for row in studies[0]["table"]))


def commands(kept: Sequence[Study]) -> str:
    """The commands of the studies with seed 0, in a code block."""
    typed = [study["command"] for study in kept if study["seed"] == 0]
    wrap = functools.partial(
        textwrap.wrap,
        width=88,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [" \\\n".join(wrap(command)) for command in typed]
    return "\n".join(["```bash", *lines, "```"])


def error_table(kept: Sequence[Study], *, late: bool) -> str:
    """Error against cost before round 10 or from it on; errors seed by seed."""
    lines = []
    for named, studies in groups(kept).items():
        for name in _names(studies):
            by_seed = [_rows(study, name, late=late) for study in studies]
            every = [row for rows in by_seed for row in rows]
            lines.append(
                {
                    "study": named,
                    "estimator": f"`{name}`",
                    "trainings": _mean(every, "trainings", 1),
                    "steps": _mean(every, "steps", 2),
                    "error of R": _ratio_errors(by_seed),
                    "error of ψ": _value_errors(by_seed),
                    "interval of ψ holds": _mean(every, "covered", 2),
                    "of R": _mean(every, "ratio_covered", 2),
                    "± (mean)": _mean(every, "margin", 3),
                }
            )
    return markdown(lines)


def target_table(kept: Sequence[Study]) -> str:
    """What was asked for, of every estimator with at most 2 N trainings.

    The reference is `orders:2`, over all rounds, for estimators that train no more
    coalitions than it does.
    """
    lines = []
    for named, studies in groups(kept).items():
        number = studies[0]["num_attributes"]

        def every(
            name: str, late: bool | None = None, studies: list[Study] = studies
        ) -> list[dict[str, Any]]:
            return [r for study in studies for r in _rows(study, name, late=late)]

        reference = every(_REFERENCE)
        most = statistics.fmean(row["trainings"] for row in reference)
        for name in _names(studies):
            rows, after = every(name), every(name, late=True)
            trainings = statistics.fmean(row["trainings"] for row in rows)
            if name.split(":")[0] not in ("additive", "leave_one_out"):
                continue
            if trainings > 2 * number:
                continue
            gain = _squares(reference) / _squares(rows)
            error = statistics.fmean(row["ratio_error"] for row in after)
            held = [row["ratio_covered"] for row in rows]
            share = None if None in held else statistics.fmean(held)
            lines.append(
                {
                    "study": named,
                    "estimator": f"`{name}`",
                    "trainings": f"{trainings:.1f}",
                    f"error² of ψ: `{_REFERENCE}` ÷ this (≥ 5)": (
                        _judged(f"{gain:.1f}", gain >= 5) if trainings <= most else "–"
                    ),
                    "error of R from round 10 (≤ .03)": _judged(
                        f"{error:.3f}", error <= 0.03
                    ),
                    "interval of R holds (≥ .93)": (
                        "–" if share is None else _judged(f"{share:.2f}", share >= 0.93)
                    ),
                }
            )
    return markdown(lines)


def worth_table(kept: Sequence[Study]) -> str:
    """What all attributes add to the utility, by round: the mean over the seeds."""
    lines = []
    for named, studies in groups(kept).items():
        rounds = studies[0]["added"]
        added = (
            f"{statistics.fmean(study['added'][r] for study in studies):.2f} ({r})"
            for r in rounds
        )
        lines.append({"study": named, "U(all) − U(∅) (round)": ", ".join(added)})
    return markdown(lines)


def round_table(kept: Sequence[Study]) -> str:
    """The error of R by round, of every estimator: the mean over the seeds."""
    blocks = []
    for named, studies in groups(kept).items():
        rounds = list(dict.fromkeys(row["round"] for row in studies[0]["table"]))
        lines = []
        for name in _names(studies):
            line = {f"{named}: round": f"`{name}`"}
            for number in rounds:
                found = [
                    row
                    for study in studies
                    for row in _rows(study, name)
                    if row["round"] == number
                ]
                line[str(number)] = _mean(found, "ratio_error", 3)
            lines.append(line)
        blocks.append(markdown(lines))
    return "\n".join(blocks)


def in_run_table(kept: Sequence[Study]) -> str:
    """Errors of values within a run, by utility; seed by seed."""
    lines = []
    for utility in ("loss", "accuracy"):
        chosen = [study for study in kept if study["utility"] == utility]
        for named, studies in groups(chosen).items():
            for name in _names(studies):
                line = {"study": named, "utility": utility, "estimator": f"`{name}`"}
                for late, when in ((False, "before round 10"), (True, "from it on")):
                    by_seed = [_rows(study, name, late=late) for study in studies]
                    line[f"error of R {when}"] = _ratio_errors(by_seed)
                    line[f"of ψ {when}"] = _value_errors(by_seed)
                lines.append(line)
    return markdown(lines)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes shapley.md's blocks from the kept studies; returns the page's path."""
    kept = studies(docs_dir)
    blocks = {
        "commands": lambda: commands(kept),
        "targets": lambda: target_table(kept),
        "worth": lambda: worth_table(kept),
        "late": lambda: error_table(kept, late=True),
        "early": lambda: error_table(kept, late=False),
        "by_round": lambda: round_table(kept),
        "in_run": lambda: in_run_table(studies(docs_dir, IN_RUN)),
    }
    return docs_blocks.rewrite(docs_dir / "shapley.md", blocks)


def _ratio_errors(by_seed: Sequence[Sequence[dict[str, Any]]]) -> str:
    return ", ".join(_mean(rows, "ratio_error", 3) for rows in by_seed)


def _value_errors(by_seed: Sequence[Sequence[dict[str, Any]]]) -> str:
    return ", ".join(f"{_squares(rows) ** 0.5:.3f}" for rows in by_seed)


def _squares(rows: Sequence[dict[str, Any]]) -> float:
    return statistics.fmean(row["value_error"] ** 2 for row in rows)


def _judged(value: str, met: bool) -> str:
    return f"{value}, {'met' if met else 'missed'}"


def _mean(rows: Sequence[dict[str, Any]], name: str, digits: int) -> str:
    known = [row[name] for row in rows if row[name] is not None]
    return f"{statistics.fmean(known):.{digits}f}" if known else "–"


if __name__ == "__main__":
    docs_blocks.run(rewrite, __doc__, keep, "keep_studies")
