"""Writes docs/decisive.md from docs/results/decisive by the registered rules."""

import pathlib
import statistics
from functools import partial
from typing import Any, NamedTuple

from fedsvp_jax.report import figures, labels, style, tables
from fedsvp_jax.report.text_table import MISSING, markdown

from .. import docs_blocks, kept_rows
from . import verdicts
from .registered import ARMS, HYPOTHESES, PARTS, Hypothesis
from .verdicts import Effect, Verdict

Row = dict[str, Any]
# Questions of the short answer, and the ends of the names of their hypotheses.
_QUESTIONS = {
    "What is worth more is at more risk, as FedSVA takes it": ("H1", "1"),
    "What is worth less is at more risk": ("H1", "2"),
    "At equal proved ε, guided noise is more accurate than constant noise": ("H2", "1"),
    "At equal proved ε, guided noise tells less of who was a member": ("H2", "2"),
    "A private budget spread by Shapley values beats an even spread": ("H3", "abc"),
}
_NOT_PROVED = "H3c"  # an upper bound, no way to guide noise
_UNITS = {"H1": "rank correlation", "H2": "points", "H3": "points"}
_LOOKS = {
    "yes": (style.OKABE_ITO[3], "D"),
    "no": (style.OKABE_ITO[2], "s"),
    "undecided": (style.GREY, "o"),
}
_WIDEST = 4.2  # of the figure's axis


class Finding(NamedTuple):
    """A hypothesis with its effect and verdict; None where fewer than two values."""

    hypothesis: Hypothesis
    registered: int  # values that were planned
    effect: Effect | None
    verdict: Verdict

    @property
    def part(self) -> str:
        """H1, H2 or H3."""
        return self.hypothesis.name[:2]


def rows_of(results: pathlib.Path, arm: str) -> list[Row]:
    """An arm's rows by seed; none where its file is not there."""
    rows = kept_rows.read(results / f"{arm}.jsonl")
    return sorted(rows, key=lambda row: row["seed"])


def values_of(results: pathlib.Path, hypothesis: Hypothesis) -> list[float]:
    """The numbers that a hypothesis is about: one per seed that all its arms have."""

    def by_seed(arm: str) -> dict[int, float]:
        return {row["seed"]: row[hypothesis.outcome] for row in rows_of(results, arm)}

    numbers = by_seed(hypothesis.arm)
    if hypothesis.against is not None:
        other = by_seed(hypothesis.against)
        both = sorted(numbers.keys() & other.keys())
        numbers = {seed: numbers[seed] - other[seed] for seed in both}
    return [hypothesis.scale * number for number in numbers.values()]


def is_reliable(results: pathlib.Path, hypothesis: Hypothesis) -> bool:
    """Whether values and risks repeat well enough for a no; true for pairs of runs."""
    rows = rows_of(results, hypothesis.arm)
    return all(
        statistics.fmean(row[name] for row in rows) >= verdicts.LEAST_RELIABILITY
        for name in ("value_reliability", "risk_reliability")
        if rows and name in rows[0]
    )


def findings(results: pathlib.Path) -> list[Finding]:
    """All hypotheses; those without two values yet are undecided."""
    planned = {arm.name: arm.seeds for arm in ARMS}
    # Holm divides by the registered number of hypotheses, whatever is there yet.
    unknown = Effect(0, 0.0, 0.0, 0.0, 1.0, 1.0)
    effects = [
        verdicts.effect(values, one.worth) if len(values) > 1 else unknown
        for one in HYPOTHESES
        for values in [values_of(results, one)]
    ]
    reliable = [is_reliable(results, one) for one in HYPOTHESES]
    decided = verdicts.verdicts(effects, reliable=reliable)
    return [
        Finding(one, planned[one.arm], None if effect is unknown else effect, verdict)
        for one, effect, verdict in zip(HYPOTHESES, effects, decided, strict=True)
    ]


def _counted(found: list[Finding]) -> str:
    """`4 no, 1 undecided`; what is not measured yet is told apart."""
    words = [
        one.verdict if one.effect is not None else "not measured yet" for one in found
    ]
    return ", ".join(f"{words.count(word)} {word}" for word in sorted({*words}))


def answer(results: pathlib.Path) -> str:
    """The answer in words, then the verdicts of each question."""
    found = findings(results)
    guided = [
        one for one in found if one.part != "H1" and one.hypothesis.name != _NOT_PROVED
    ]
    gains = [one.hypothesis.name for one in guided if one.verdict == "yes"]
    of = f"{len(guided)} registered comparisons at equal proved ε"
    if gains:
        says = f"**Yes, in {', '.join(gains)}** of the {of}."
    elif all(one.verdict == "no" for one in guided):
        says = f"None of the {of} gains as much as would be worth having."
    else:
        says = f"**Not shown.** None of the {of} is a yes ({_counted(guided)})."
    lines = [says, ""]
    for question, (part, ends) in _QUESTIONS.items():
        mine = [
            one for one in found if one.part == part and one.hypothesis.name[-1] in ends
        ]
        lines.append(f"- {question}: {_counted(mine)}.")
    return "\n".join(lines)


def table(results: pathlib.Path) -> str:
    """One line per hypothesis."""
    lines = []
    for one in findings(results):
        effect, hypothesis = one.effect, one.hypothesis
        cells = {"effect": "–", "95 % interval": "–", "pairs or pools": "0"}
        if effect is not None:
            mean, low, high = (f"{number:+.2f}" for number in effect[1:4])
            cells = {
                "effect": mean,
                "95 % interval": f"{low} to {high}",
                "pairs or pools": f"{effect.num_values} of {one.registered}",
            }
        lines.append(
            {"": hypothesis.name, "hypothesis": hypothesis.says}
            | cells
            | {
                "worth having from": f"{hypothesis.worth:g} {_UNITS[one.part]}",
                "verdict": f"**{one.verdict}**",
            }
        )
    return markdown(lines)


def arms(results: pathlib.Path) -> str:
    """The means behind the differences, and what was spent."""
    lines = []
    for arm in ARMS:
        rows = rows_of(results, arm.name)
        if arm.part == "H1" or not rows:
            continue

        def shown(name: str, rows: list[Row] = rows) -> str:
            spread = tables.mean_std(tables.present(rows, name))
            return labels.percent(*spread, digits=1)

        spent = max(row["spent_pld"] for row in rows)
        lines.append(
            {
                "arm": f"`{arm.name}`",
                "ε spent of promised (PLD)": f"{spent:.2f} of "
                f"{rows[0]['total_epsilon']:g} ({rows[0]['status']})",
                "accuracy %": shown("accuracy"),
                "private group %": shown("private_accuracy"),
                "area of membership attack %": shown("membership_area"),
                "seeds": str(len(rows)),
            }
        )
    return markdown(lines) if lines else MISSING


def repeats(results: pathlib.Path) -> str:
    """How well the measurements of H1 repeat, and what was computed."""
    lines = []
    for arm in ARMS:
        rows = rows_of(results, arm.name)
        if arm.part != "H1" or not rows:
            continue
        names = ("value_reliability", "risk_reliability")
        values, risks = (statistics.fmean(row[name] for row in rows) for name in names)
        found = [row["rank_correlation"] for row in rows]
        lines.append(
            {
                "study": f"`{arm.name}`",
                "reliability of values": f"{values:.2f}",
                "reliability of risks": f"{risks:.2f}",
                "correlations of single pools": f"{min(found):+.2f} to "
                f"{max(found):+.2f}",
                "pools": str(len(rows)),
            }
        )
    return markdown(lines) if lines else MISSING


def cost(results: pathlib.Path) -> str:
    """CPU time by part."""
    minutes = {
        part: sum(
            row["cpu_s"]
            for arm in ARMS
            if arm.part == part
            for row in rows_of(results, arm.name)
        )
        / 60
        for part in PARTS
    }
    told = ", ".join(f"{part} {number:.1f}" for part, number in minutes.items())
    return f"CPU minutes: {told}."


def _draw(found: list[Finding], axes: Any) -> None:
    """A line per effect, in multiples of the smallest that is worth having."""
    for place, one in enumerate(found):
        if one.effect is None:
            continue
        color, marker = _LOOKS[one.verdict]
        mean, low, high = (part / one.hypothesis.worth for part in one.effect[1:4])
        if mean < -_WIDEST:  # one outlier would flatten all others
            text = f"◀ −{-mean:.0f} times"
            axes.text(-_WIDEST, -place, text, color=color, va="center", fontsize=7)
            continue
        axes.plot([low, high], [-place] * 2, color=color)
        axes.plot(mean, -place, marker, color=color)
    for verdict in dict.fromkeys(one.verdict for one in found):
        color, marker = _LOOKS[verdict]
        axes.plot([], [], marker, color=color, label=verdict)
    axes.axvline(0, color=style.GREY, linewidth=1)
    axes.axvline(1, color=style.GREY, linewidth=1, linestyle=":")
    axes.set_xlim(-_WIDEST, 1.5)
    axes.set_yticks([-place for place in range(len(found))])
    axes.set_yticklabels([one.hypothesis.says for one in found])
    axes.set_xlabel("effect / smallest effect worth having (dotted)")


def draw(docs_dir: pathlib.Path, kind: str = "svg") -> list[pathlib.Path]:
    """Effects with their 95 % intervals, without the mirror images of H1."""
    results = docs_dir / "results" / "decisive"
    path = docs_dir / "images" / f"decisive.{kind}"
    shown = [
        one
        for one in findings(results)
        if (one.part, one.hypothesis.name[-1]) != ("H1", "2")
    ]
    return [figures.panels(path, [partial(_draw, shown)], plot_height=3.2, wide=True)]


def blocks(results: pathlib.Path) -> dict[str, Any]:
    """The writers of the page's blocks."""
    writers = (answer, table, arms, repeats, cost)
    return {writer.__name__: partial(writer, results) for writer in writers}


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes decisive.md's blocks from the kept rows."""
    results = docs_dir / "results" / "decisive"
    return docs_blocks.rewrite(docs_dir / "decisive.md", blocks(results))
