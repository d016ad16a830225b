"""How close the measured cells are to the published ones, and what two tables share."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedsvp_jax import mechanisms
from fedsvp_jax.report.text_table import MISSING, markdown

from . import kept_cells
from .evidence import CONTRIBUTION, FEDAVG, Evidence, sizes

NEAR, FAR = 3.0, 10.0  # points
EQUAL = 0.03  # points within which two papers print the same number
_TABLES = ("fedsva_table1", "fedsdp_table1", "fedsva_table2")
_OURS = {True: "reconstructed by us", False: "printed"}


class Pair(NamedTuple):
    """A published cell beside ours: accuracy, and loss against its own FedAvg."""

    formula: str
    accuracies: tuple[float, float]  # published, measured; %
    losses: tuple[float, float]


def pairs(evidence: Evidence) -> Iterator[Pair]:
    """Every published cell that is measured."""
    for table in _TABLES:
        baselines = "fedsdp_table1" if table == "fedsdp_table1" else "fedsva_table1"
        for preset, scenario in kept_cells.SCENARIO_OF.items():
            fedavg = evidence.published_last5(baselines, scenario)[FEDAVG]
            base = kept_cells.measured_group(
                evidence.measured, preset, {"mechanism": "none", "epsilon": None}
            )
            for cell in evidence.published[table]["cells"]:
                if not kept_cells.is_of(cell, scenario):
                    continue
                group = kept_cells.measured_group(evidence.measured, preset, cell)
                if group is None or base is None:
                    continue
                name = cell.get("mechanism", "fedsva")
                ours = 100 * statistics.fmean(group["last5"])
                yield Pair(
                    "FedAvg"
                    if name == "none"
                    else _OURS[mechanisms.is_reconstruction(name)],
                    (cell["last5"], ours),
                    (
                        100 * (1 - cell["last5"] / fedavg),
                        100 * (1 - ours / (100 * statistics.fmean(base["last5"]))),
                    ),
                )


def closeness_block(evidence: Evidence) -> str:
    """Cells within NEAR and FAR points, by the kind of their formula."""
    every = list(pairs(evidence))
    kinds = sorted({pair.formula for pair in every})
    rows = []
    for kind in (*kinds, "all"):
        chosen = [pair for pair in every if kind in (pair.formula, "all")]
        row = {"formula": kind, "cells": str(len(chosen))}
        for name, field in (("accuracy", "accuracies"), ("loss", "losses")):
            gaps = [abs(a - b) for a, b in (getattr(pair, field) for pair in chosen)]
            for limit in (NEAR, FAR):
                column = f"{name} within ±{limit:g} points"
                row[column] = str(sum(gap <= limit for gap in gaps))
        rows.append(row)
    return markdown(rows)


def baselines_block(evidence: Evidence) -> str:
    """The baselines' noised cells that both papers print, against each one's FedAvg."""
    rows = []
    for scenario in kept_cells.SCENARIO_OF.values():
        new, old = (
            {
                (c["mechanism"], c["epsilon"]): c
                for c in evidence.published_cells(table, scenario)
            }
            for table in ("fedsva_table1", "fedsdp_table1")
        )
        shared = [
            key
            for key in new
            if key in old and key[1] is not None and key[0] not in ("fedsva", "fedsdp")
        ]
        same = [key for key in shared if _gap(new[key], old[key]) <= EQUAL]
        rows.append(
            {
                "scenario": scenario,
                "baselines' noised cells in both papers": str(len(shared)),
                f"equal within {EQUAL:g}": str(len(same)),
                "of these with an equal ±": str(
                    sum(
                        new[key].get("last5_std") == old[key].get("last5_std")
                        for key in same
                    )
                ),
                "FedAvg in FedSDP": f"{old[FEDAVG]['last5']:.2f}",
                "FedAvg in FedSVA": f"{new[FEDAVG]['last5']:.2f}",
            }
        )
    return markdown(rows) + "\n" + _against_own_fedavg(evidence)


def _against_own_fedavg(evidence: Evidence) -> str:
    """What FedSVA's table keeps of FedAvg if baselines keep the FedAvg they had."""
    scenario, epsilon = kept_cells.SCENARIO_OF["femnist_medium"], 0.5

    new, old = (
        evidence.published_last5(table, scenario)
        for table in ("fedsva_table1", "fedsdp_table1")
    )
    base, own, guided = old[FEDAVG], new[FEDAVG], new["fedsva", epsilon]
    baselines = [key for key in new if key[1] == epsilon and key != ("fedsva", epsilon)]
    below = sum(new[key] < base for key in baselines)
    kept = ", ".join(
        f"{mechanisms.mechanism_label(key[0])} {100 * new[key] / base:.1f} %"
        for key in baselines
    )
    return (
        f"At ε = {epsilon:g} on {scenario}, {below} of {len(baselines)} baselines of "
        f"FedSVA's table lie below FedSDP's FedAvg ({base:.2f}). Against its "
        f"own FedAvg ({own:.2f}) FedSVA keeps "
        f"{100 * guided / own:.1f} %; against FedSDP's FedAvg the "
        f"baselines keep: {kept}.\n"
    )


def direction_block(evidence: Evidence) -> str:
    """Whether R rises or falls over the rounds of the CIFAR-10 runs."""
    starts, ends = [], []
    for _, result in sizes(evidence, CONTRIBUTION):
        for group in result["groups"]:
            ratios = group["contribution_ratio_mean"]
            if group["mechanism"] in ("fedsva", "fedsdp") and ratios is not None:
                starts.append(statistics.fmean(ratios[:5]))
                ends.append(statistics.fmean(ratios[-5:]))
    if not starts:
        return MISSING
    rise = sum(end > start for start, end in zip(starts, ends, strict=True))
    return (
        f"Over a run of CIFAR-10 the mean R rises in {rise} of {len(starts)} measured "
        f"cells: from {min(starts):.2f} … {max(starts):.2f} in the first five rounds "
        f"to {min(ends):.2f} … {max(ends):.2f} in the last five.\n"
    )


def _gap(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    return abs(round(one["last5"] - other["last5"], 6))
