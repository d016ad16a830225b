"""The tables of docs/reproduction.md: measured columns beside the published ones.

The page is written by hand except for its blocks (`docs_blocks`), which are made from
the files of docs/results/reproduction. Every statement in a block is a comparison of
numbers that is made here.
"""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.report import labels, tables
from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks
from . import results
from .evidence import (
    CONTRIBUTION,
    GAPS,
    NOISE_FIGURES,
    SCENARIOS,
    TABLES,
    Evidence,
    mean_accuracy,
    preset_command,
    provenance,
    sizes,
)
from .open_question import question_block
from .paired_gap import paired_gap
from .results import Result


def render(page: str, evidence: Evidence) -> str:
    """The page with every block rewritten.

    Raises:
      ValueError: the blocks of the page are not those of `BLOCKS`.
    """
    return docs_blocks.rewritten(
        page, {name: partial(block, evidence) for name, block in BLOCKS.items()}
    )


def _runs(evidence: Evidence) -> str:
    rows = [
        {
            "preset": name,
            "command": f"`{preset_command(name)}`",
            "date": result["date"],
            "device": result["device_kind"],
            "seconds": f"{results.seconds(result):.0f}",
        }
        for name, result in evidence.measured.items()
    ]
    total = sum(results.seconds(result) for result in evidence.measured.values())
    versions = {
        " ".join(f"{k} {v}" for k, v in result["versions"].items())
        for result in evidence.measured.values()
    }
    note = (
        f"All rounds together took {total:.0f} s. "
        f"Versions: {'; '.join(sorted(versions))}.\n"
    )
    return markdown(rows) + "\n" + note


def _accuracies(preset: str) -> Callable[[Evidence], str]:
    """The block of one published table in one scenario, with what was measured."""

    def block(evidence: Evidence) -> str:
        table, scenario = TABLES[preset]
        measured = sizes(evidence, preset)
        rows = []
        cells = evidence.published_cells(table, scenario)
        fedavg = next(cell["last5"] for cell in cells if cell["mechanism"] == "none")
        for cell in cells:
            loss = _below(cell["last5"], fedavg) if cell["epsilon"] else "–"
            row = {
                "mechanism": mechanisms.mechanism_label(cell["mechanism"]),
                "ε": labels.significant(cell["epsilon"]),
                "published: best %": _published(cell, "best"),
                "published: last 5 %": _published(cell, "last5"),
                "published: loss vs FedAvg (last 5)": loss,
            }
            for size, result in measured:
                row |= _measured(size, result, cell["mechanism"], cell["epsilon"])
            rows.append(row | provenance([result for _, result in measured]))
        return markdown(rows)

    return block


def _measured(
    size: str, result: Result, mechanism: str, epsilon: float | None
) -> dict[str, str]:
    group = results.group_of(result, mechanism, epsilon)
    best = last5 = loss = "–"
    if group is not None:
        best = labels.percent(*tables.mean_std(group["best"]))
        last5 = labels.percent(*tables.mean_std(group["last5"]))
        if mechanism != "none":
            fedavg = mean_accuracy(results.group_of(result, "none"))
            loss = _below(mean_accuracy(group), fedavg)
    return {
        f"{size}: best %": best,
        f"{size}: last 5 %": last5,
        f"{size}: loss vs FedAvg (last 5)": loss,
    }


def _attributes(evidence: Evidence) -> str:
    """FedSVA, Table 2: accuracy and run time by N."""
    published = evidence.published["fedsva_table2"]["cells"]
    (fedavg,) = evidence.published["fedsva_runtime"]["cells"]
    base = next(c["seconds"] for c in published if c["num_attributes"] == 2)
    two = _round_seconds(evidence, "fedsva_table2_n2_cifar10", "fedsva")
    rows = [
        {
            "N": "FedAvg",
            "ε": "–",
            "published: last 5 %": "–",
            "published: seconds per run": f"{fedavg['seconds']:,.0f}",
            "published: time ÷ time at N = 2": f"{fedavg['seconds'] / base:.2f}",
            **_timed(evidence, "fedsva_table2_n2_cifar10", "none", None, two),
        }
    ]
    for cell in published:
        preset = f"fedsva_table2_n{cell['num_attributes']}_cifar10"
        seconds = f"{cell['seconds']:,.0f} ± {cell['seconds_std']:,.0f}"
        rows.append(
            {
                "N": str(cell["num_attributes"]),
                "ε": labels.significant(cell["epsilon"]),
                "published: last 5 %": _published(cell, "last5"),
                "published: seconds per run": seconds,
                "published: time ÷ time at N = 2": f"{cell['seconds'] / base:.2f}",
                **_timed(evidence, preset, "fedsva", cell["epsilon"], two),
            }
        )
    return markdown(rows)


def _timed(
    evidence: Evidence,
    preset: str,
    mechanism: str,
    epsilon: float | None,
    base: float | None,
) -> dict[str, str]:
    measured = [result for _, result in sizes(evidence, preset)][-1:]
    seconds = _round_seconds(evidence, preset, mechanism)
    last5 = time = ratio = "–"
    if measured and seconds is not None and base is not None:
        group = results.group_of(measured[0], mechanism, epsilon)
        last5 = labels.percent(*tables.mean_std(group["last5"])) if group else "–"
        time, ratio = f"{seconds:.3g}", f"{seconds / base:.2f}"
    else:
        measured = []
    return {
        "measured: last 5 %": last5,
        "measured: seconds per round": time,
        "measured: time ÷ time at N = 2": ratio,
        **provenance(measured),
    }


def _round_seconds(evidence: Evidence, preset: str, mechanism: str) -> float | None:
    """Seconds per round of one cell, without the call that compiles."""
    measured = sizes(evidence, preset)
    if not measured:
        return None
    result = measured[-1][1]
    timing = result["timing"].get(mechanism)
    if not timing or not timing["later_rounds"]:
        return None
    num_cells = sum(
        len(g["seeds"]) for g in result["groups"] if g["mechanism"] == mechanism
    )
    return timing["later_seconds"] / timing["later_rounds"] / num_cells


def _noise(evidence: Evidence) -> str:
    """FedSVA, Fig. 2 and FedSDP, Fig. 3: noise by round and cumulative ε."""
    rows = []
    for preset in NOISE_FIGURES:
        for size, result in sizes(evidence, preset):
            for group in result["groups"]:
                noise, spent = group["noise_l2"], group["epsilon_spent"]
                first, middle, last = (
                    labels.significant(noise[t], 4) for t in (0, len(noise) // 2, -1)
                )
                rows.append(
                    {
                        "preset": f"{preset}, {size}",
                        "mechanism": mechanisms.mechanism_label(group["mechanism"]),
                        "ε": labels.significant(group["epsilon"]),
                        "L2 norm of an upload's noise: first round": first,
                        "middle round": middle,
                        "last round": last,
                        "ε spent: basic": labels.significant(spent["basic"][-1]),
                        "ε spent: RDP": labels.significant(spent["rdp"][-1]),
                        **provenance([result]),
                    }
                )
    return markdown(rows)


def _contribution(evidence: Evidence) -> str:
    """FedSDP, Fig. 1: the private data's contribution ratio by round."""
    rows = []
    for _, result in sizes(evidence, CONTRIBUTION):
        for group in result["groups"]:
            ratio = [r for r in group["contribution_ratio_mean"] if r is not None]
            rows.append(
                {
                    "ε": labels.significant(group["epsilon"]),
                    "mean R: first 5 rounds": f"{statistics.fmean(ratio[:5]):.3f}",
                    "last 5 rounds": f"{statistics.fmean(ratio[-5:]):.3f}",
                    "smallest R": f"{min(ratio):.3f}",
                    "largest R": f"{max(ratio):.3f}",
                    **provenance([result]),
                }
            )
    return markdown(rows)


def _impossible(evidence: Evidence) -> str:
    """Published cells that contradict themselves: the last-5 mean exceeds the best."""
    lines = []
    for table in ("fedsva_table1", "fedsdp_table1"):
        for cell in evidence.published[table]["cells"]:
            if cell["last5"] > cell["best"]:
                lines.append(
                    f"- {evidence.published[table]['title']}, {cell['scenario']}, "
                    f"{mechanisms.mechanism_label(cell['mechanism'])} at ε = "
                    f"{cell['epsilon']:g}: best {cell['best']:.2f}, mean of the last "
                    f"five {cell['last5']:.2f}.\n"
                )
    return "".join(lines) or "None.\n"


def _gap(evidence: Evidence) -> str:
    """FedSVA against NbAFL at L = 1 and one ε, paired by seed."""
    rows = []
    for preset in GAPS:
        for size, result in sizes(evidence, preset):
            for nbafl in result["groups"]:
                if nbafl["mechanism"] != "nbafl":
                    continue
                fedsva = results.group_of(result, "fedsva", nbafl["epsilon"])
                if fedsva is None or fedsva["seeds"] != nbafl["seeds"]:
                    continue
                gap = paired_gap(fedsva["last5"], nbafl["last5"])
                ratio = results.noise_std(fedsva) / results.noise_std(nbafl)
                nbafl_last5, fedsva_last5 = (
                    labels.percent(*tables.mean_std(group["last5"]))
                    for group in (nbafl, fedsva)
                )
                rows.append(
                    {
                        "preset": f"{preset}, {size}",
                        "ε": labels.significant(nbafl["epsilon"]),
                        "seeds": str(gap.num_seeds),
                        "FedSVA's σ ÷ NbAFL's": f"{ratio:.4f}",
                        "NbAFL: last 5 %": nbafl_last5,
                        "FedSVA: last 5 %": fedsva_last5,
                        "gap in percentage points": f"{100 * gap.mean:+.2f}",
                        "95 % t interval": _interval(gap.t_interval),
                        "95 % bootstrap interval": _interval(gap.bootstrap_interval),
                        "95 % t interval contains 0": (
                            "yes" if gap.contains_zero else "no"
                        ),
                        **provenance([result]),
                    }
                )
    return markdown(rows)


def _interval(limits: tuple[float, float]) -> str:
    low, high = limits
    return f"{100 * low:+.2f} … {100 * high:+.2f}"


def _published(cell: dict[str, Any], name: str) -> str:
    std = cell.get(f"{name}_std")
    return f"{cell[name]:.2f}" + (f" ± {std:.2f}" if std is not None else "")


def _below(value: float | None, reference: float | None) -> str:
    if value is None or not reference:
        return "–"
    return f"{100 * (reference - value) / reference:.0f}%"


def _pictured(
    alt: str, name: str, block: Callable[[Evidence], str]
) -> Callable[[Evidence], str]:
    """The block below its figure, which exists once there are results."""

    def pictured(evidence: Evidence) -> str:
        text = block(evidence)
        drawn = not text.startswith("Not measured")
        return f"![{alt}](images/{name}.svg)\n\n{text}" if drawn else text

    return pictured


BLOCKS: dict[str, Callable[[Evidence], str]] = {
    "runs": _runs,
    **{preset: _accuracies(preset) for preset in TABLES},
    "fedsva_table2": _attributes,
    "noise_by_round": _pictured("noise by round", "noise_by_round_small", _noise),
    "contribution": _pictured(
        "contribution by round", "contribution_small", _contribution
    ),
    "impossible": _impossible,
    "question_cifar10": question_block(SCENARIOS[0]),
    "question_emnist": question_block(SCENARIOS[1]),
    "question_leaf": question_block(SCENARIOS[2]),
    "gap": _gap,
}
