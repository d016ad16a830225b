"""The tables of docs/reproduction.md: measured columns beside the published ones.

The page is written by hand except for its blocks (`docs_blocks`), which are made from
the files of docs/results/reproduction. Every statement in a block is a comparison of
numbers that is made here.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fedsvp_jax import mechanisms
from fedsvp_jax.report import labels, tables
from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks, presets
from . import estimates, kept_cells, results
from .attribute_table import attributes_block
from .closeness import baselines_block, closeness_block, direction_block
from .evidence import (
    CONTRIBUTION,
    CONVERGED,
    FEDAVG,
    GAPS,
    NOISE_FIGURES,
    SCENARIOS,
    TABLES,
    Evidence,
    compiler_flags,
    load,
    preset_command,
    provenance,
    published_score,
    sizes,
)
from .findings import findings
from .open_question import percent, question_block
from .results import Result


def rewrite(docs_dir: Path) -> Path:
    """Writes every block of reproduction.md and its tables; returns the page's path.

    Raises:
      ValueError: a result is damaged, or the page's blocks are not those of `BLOCKS`.
    """
    evidence = load(docs_dir / "results" / "reproduction")
    return docs_blocks.rewrite(
        docs_dir / "reproduction.md",
        {name: partial(block, evidence) for name, block in BLOCKS.items()},
    )


def draw(docs_dir: Path, kind: str = "svg") -> list[Path]:
    """Draws the page's figures; returns their paths."""
    from . import figures  # which takes its groups from here

    evidence = load(docs_dir / "results" / "reproduction")
    return figures.write_figures(evidence, docs_dir / "images", kind)


def _runs(evidence: Evidence) -> str:
    rows = [
        {
            "preset": name,
            "command": f"`{preset_command(name)}`",
            "date": result["date"],
            "device": result["device_kind"],
            "compiler's flags": compiler_flags(result),
            "rounds": str(result["settings"]["num_rounds"]),
            "cells": str(sum(len(group["seeds"]) for group in result["groups"])),
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


def _progress(evidence: Evidence) -> str:
    return markdown(kept_cells.progress(evidence.measured, evidence.published))


def _deviations(evidence: Evidence) -> str:
    """What the runs to convergence change of the published settings."""
    del evidence
    parts = []
    for name in presets.preset_names("medium"):
        preset = presets.read_preset(name)
        (against,) = (line for line in preset.head if line.startswith("Against "))
        rows = [
            {"setting": flag, "published": full, "here": here}
            for flag, (full, here) in preset.shrunk.items()
        ]
        title = f"`{name}.flags` against `{against.removeprefix('Against ')[:-1]}`:\n"
        parts += [title, markdown(rows), " ".join(preset.notes) + "\n"]
    return "\n".join(parts)


def _accuracies(preset: str) -> Callable[[Evidence], str]:
    """The block of one published table in one scenario, with what was measured."""

    def block(evidence: Evidence) -> str:
        table, scenario = TABLES[preset]
        measured = sizes(evidence, preset)
        rows = []
        cells = evidence.published_cells(table, scenario)
        fedavg = evidence.published_last5(table, scenario)[FEDAVG]
        for cell in cells:
            loss = percent(1 - cell["last5"] / fedavg) if cell["epsilon"] else "–"
            row = {
                "mechanism": mechanisms.mechanism_label(cell["mechanism"]),
                "formula": _formula(cell["mechanism"]),
                "ε": labels.significant(cell["epsilon"]),
                "published: best %": published_score(cell, "best"),
                "published: last 5 %": published_score(cell, "last5"),
                "published: loss vs FedAvg (last 5)": loss,
            }
            groups = []
            for size, result in measured:
                group = results.group_of(result, cell["mechanism"], cell["epsilon"])
                row |= _measured(size, result, group)
                groups += [group] if group else []
            of = [result for _, result in measured] if groups else []
            rows.append(row | provenance(of, groups))
        return markdown(rows)

    return block


def _formula(mechanism: str) -> str:
    if mechanism == "none":
        return "–"
    return "ours" if mechanisms.is_reconstruction(mechanism) else "printed"


def _measured(size: str, result: Result, group: Result | None) -> dict[str, str]:
    best = last5 = loss = gain = std = "–"
    if group is not None:
        if "gain" in group:
            gain = f"{100 * statistics.fmean(group['gain']):+.1f}"
        if group["averaging"]:
            std = f"{results.noise_std(group):.3g}"
        best, last5 = _of_seeds(group["best"]), _of_seeds(group["last5"])
        if group["mechanism"] != "none":
            fedavg = results.group_of(result, "none")
            share = estimates.share(group, fedavg)
            loss = percent(None if share is None else 1 - share)
    row = {
        f"{size}: best %": best,
        f"{size}: last 5 %": last5,
        f"{size}: loss vs FedAvg (last 5)": loss,
    }
    if size == CONVERGED:
        row["gain in the last fifth"] = gain
        row["std of the averaged noise"] = std
    return row


def _of_seeds(shares: Sequence[float | None]) -> str:
    """A mean over seeds in percent, with its interval from two seeds on."""
    estimate = estimates.of_seeds(shares)
    return estimate.cell() if estimate else "–"


def shown_noise(result: Result) -> list[Result]:
    """The groups of a noise figure: the published mechanisms at ε = .2 and .5."""
    return [
        group
        for group in result["groups"]
        if group["epsilon"] in (0.2, 0.5) and group["averaging"]
    ]


def _noise(evidence: Evidence) -> str:
    """FedSVA, Fig. 2 and FedSDP, Fig. 3: noise by round and cumulative ε."""
    rows = []
    for preset, figure in NOISE_FIGURES.items():
        for size, result in sizes(evidence, preset):
            for group in shown_noise(result):
                noise, spent = group["noise_l2"], group["epsilon_spent"]
                first, middle, last = (
                    labels.significant(noise[t], 4) for t in (0, len(noise) // 2, -1)
                )
                rows.append(
                    {
                        "figure": f"{figure}, {size}",
                        "mechanism": mechanisms.mechanism_label(group["mechanism"]),
                        "formula": _formula(group["mechanism"]),
                        "ε": labels.significant(group["epsilon"]),
                        "L2 norm of an upload's noise: first round": first,
                        "middle round": middle,
                        "last round": last,
                        "ε spent: basic": labels.significant(spent["basic"][-1]),
                        **provenance([result], [group]),
                    }
                )
    return markdown(rows)


def guided(result: Result) -> list[Result]:
    """The groups whose noise follows the contribution ratio R."""
    return [
        group
        for group in result["groups"]
        if group["mechanism"] in ("fedsva", "fedsdp")
        and group["contribution_ratio_mean"] is not None
    ]


def _contribution(evidence: Evidence) -> str:
    """FedSDP, Fig. 1: the private data's contribution ratio by round."""
    rows = []
    for _, result in sizes(evidence, CONTRIBUTION):
        for group in guided(result):
            ratio = group["contribution_ratio_mean"]
            rows.append(
                {
                    "mechanism": mechanisms.mechanism_label(group["mechanism"]),
                    "ε": labels.significant(group["epsilon"]),
                    "mean R: first 5 rounds": f"{statistics.fmean(ratio[:5]):.3f}",
                    "last 5 rounds": f"{statistics.fmean(ratio[-5:]):.3f}",
                    "smallest R": f"{min(ratio):.3f}",
                    "largest R": f"{max(ratio):.3f}",
                    **provenance([result], [group]),
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
                gap = estimates.paired(fedsva["last5"], nbafl["last5"])
                if gap is None or gap.interval is None:
                    continue
                low, high = gap.interval
                ratio = results.noise_std(fedsva) / results.noise_std(nbafl)
                nbafl_last5, fedsva_last5 = (
                    labels.percent(*tables.mean_std(group["last5"]))
                    for group in (nbafl, fedsva)
                )
                rows.append(
                    {
                        "preset": f"{preset}, {size}",
                        "ε": labels.significant(nbafl["epsilon"]),
                        "FedSVA's σ ÷ NbAFL's": f"{ratio:.4f}",
                        "NbAFL: last 5 %": nbafl_last5,
                        "FedSVA: last 5 %": fedsva_last5,
                        "gap in percentage points": f"{gap.value:+.2f}",
                        "95 % t interval": f"{low:+.2f} … {high:+.2f}",
                        "it contains 0": "yes" if low <= 0 <= high else "no",
                        **provenance([result], [nbafl, fedsva]),
                    }
                )
    return markdown(rows)


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
    "closeness": closeness_block,
    "baselines": baselines_block,
    "direction": direction_block,
    "findings": findings,
    "progress": _progress,
    "deviations": _deviations,
    "runs": _runs,
    **{preset: _accuracies(preset) for preset in TABLES},
    "fedsva_table2": attributes_block,
    "noise_by_round": _pictured("noise by round", "noise_by_round", _noise),
    "contribution": _pictured("contribution by round", "contribution", _contribution),
    "impossible": _impossible,
    "question_cifar10": question_block(SCENARIOS[0]),
    "question_emnist": question_block(SCENARIOS[1]),
    "question_leaf": question_block(SCENARIOS[2]),
    "gap": _gap,
}
