"""Writes the measured and computed tables of docs/results/guarantees.md.

  python -m experiments.pages guarantees

Each table is made from one file of docs/results/privacy. `composition`,
`release_cost` and `promise` hold what the library computes now. `budgets` and `batches`
hold what --solve=noise finds (`python -m experiments.budget_table`, minutes). The
others are of finished runs: the attack --attack=noise_scale, and sweeps of FedSVA with
each --contribution_release, at
other ε (`same_spent`) and another --sensitivity (`update_clip`).
A table whose file is missing says that nothing was measured.
"""

import json
import math
import pathlib
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.config import of_today
from fedsvp_jax.mechanisms import shapley_guided
from fedsvp_jax.report import labels, spent, tables
from fedsvp_jax.report.text_table import MISSING, markdown
from fedsvp_jax.run.files import write_json

from . import docs_blocks
from .budget_table import batches_table, budgets_table
from .ledger_tables import (
    promise,
    promise_table,
)

Json = dict[str, Any]
_RELEASES = ("none", "worst_case", "laplace", "randomized_response")
_MORE_RELEASES = ("same_spent", "update_clip")
_DELTA = 0.02  # δ of an upload in the published set-up
_TARGET_DELTA = 1e-5
_EPSILON = 0.2  # of an upload


def composition() -> Json:
    """ε after 1, 40 and 400 uploads at R = 0, if 2C/|D| is taken for granted."""
    tolerance = shapley_guided.risk_tolerance(0.0, _DELTA)
    multiplier = math.sqrt(tolerance) / _EPSILON
    upload_delta = float(shapley_guided.effective_delta(tolerance, 0.1))
    rows = []
    for uploads in (1, 40, 400):
        epsilons = {"basic": uploads * _EPSILON} | {
            method: composed_epsilon(method, uploads / multiplier**2, _TARGET_DELTA)
            for method in ("gdp", "pld", "rdp")
        }
        rows.append({"uploads": uploads, "delta": uploads * upload_delta} | epsilons)
    return {"noise_multiplier": multiplier, "target_delta": _TARGET_DELTA, "rows": rows}


def release_cost() -> Json:
    """ε of 40 uploads by PLD, with what the release of R costs."""

    def spent(ratio: float, release_epsilon: float) -> float:
        tolerance = float(shapley_guided.risk_tolerance(ratio, _DELTA))
        return composed_epsilon(
            "pld",
            40 * _EPSILON**2 / tolerance,
            _TARGET_DELTA,
            releases=40,
            release_epsilon=release_epsilon,
        )

    rows: list[tuple[str, float | None, float]] = [
        ("raw", None, spent(0.0, 0.0)),
        ("worst_case", None, spent(1.0, 0.0)),
    ]
    rows += [("private", release, spent(0.0, release)) for release in (0.01, 0.1, 1.0)]
    largest, smallest = (
        float(shapley_guided.risk_tolerance(ratio, _DELTA)) for ratio in (1.0, 0.0)
    )
    return {
        "most_noise_added": math.sqrt(largest / smallest) - 1,
        "rows": [
            {
                "release": name,
                "release_epsilon": release,
                # Of randomised response, the gap between the means at R = 1 and 0.
                "mean_gap": None if release is None else math.tanh(release / 2),
                "epsilon": epsilon,
            }
            for name, release, epsilon in rows
        ],
    }


def composition_table(results: Json) -> str:
    """ε by number of uploads and accounting."""
    rows = [
        {
            "uploads": str(row["uploads"]),
            "basic (published), at this δ": (
                f"{row['basic']:g}, {min(row['delta'], 1.0):.3g}"
            ),
            "exact Gaussian": f"{row['gdp']:.3f}",
            "PLD": f"{row['pld']:.3f}",
            "RDP": f"{row['rdp']:.3f}",
        }
        for row in results["rows"]
    ]
    return markdown(rows)


def _release(kept: str) -> str:
    """A --contribution_release as it is named today; rows are kept by former names."""
    return str(of_today({"contribution_release": kept})["contribution_release"])


def release_cost_table(results: Json) -> str:
    """What each release of R costs in noise and in ε."""
    cost = f"at most {100 * results['most_noise_added']:.1f} %"
    rows = []
    for row in results["rows"]:
        name, epsilon = row["release"], f"{row['epsilon']:.3f}"
        if name == "raw":
            shown, ratio = "`raw`", "R"
            epsilon += " (at R = 0), and R itself"
        elif name == "worst_case":
            shown, ratio = "`worst_case`", "always 1"
        else:
            shown = (
                f"`laplace`, `randomized_response`, ε_r = {row['release_epsilon']:g}"
            )
            ratio = (
                "of randomised response, the means at R = 0 and R = 1 differ by "
                f"{row['mean_gap']:.2g}"
            )
        rows.append(
            {
                "`--contribution_release`": shown,
                "the R that sets the noise": ratio,
                "cost in noise": "–" if name == "raw" else cost,
                "ε of 40 uploads at δ = 1e-5 (PLD)": epsilon,
                "rigorous": "no" if name == "raw" else "yes",
            }
        )
    return markdown(rows)


def noise_scale_table(results: Json) -> str:
    """What the attack on the noise scale reads."""
    rows = [
        {
            "release": f"`{_release(row['release'])}`",
            "ε of R": "–" if row["epsilon"] is None else f"{row['epsilon']:g}",
            "mean \\|σ̂/σ − 1\\|": f"{row['std_relative_error']:.4f}",
            "1/sqrt(2d)": f"{results['expected_std_relative_error']:.4f}",
            "mean \\|R̂ − R\\|": f"{row['ratio_error']:.3f}",
            "smallest error that ε guarantees": f"{row['least_error']:.3f}",
        }
        for row in results["releases"]
    ]
    config, plain = results["config"], results["releases"][0]
    error = plain["ratio_standard_error"]
    return (
        f"{markdown(rows)}\n{plain['uploads']} uploads of {config['num_rounds']} "
        f"rounds, {results['num_parameters']:,} weights, ε = {config['epsilon']:g}, "
        f"δ = {config['delta']:g}, ε_r = {config['release_epsilon']:g}, seed "
        f"{config['seed']}; device: {config['device_kind']}. With `raw` the standard "
        f"error 2T/sqrt(2d) of R̂ is {error:.3f}; a Gaussian error of that size is "
        f"{math.sqrt(2 / math.pi) * error:.3f} on average. Who names the median R for "
        f"everybody errs by {plain['guess_error']:.3f}."
    )


def release_accuracy_table(by_release: dict[str, Json]) -> str:
    """Accuracy of each release, with the mean paired difference from `raw`."""
    reference = by_release["none"]["rows"]
    epsilons = [f"{row['epsilon']:g}" for row in reference]
    rows = []
    for name, results in by_release.items():
        cells = {"release": f"`{_release(name)}`"}
        for row, other in zip(results["rows"], reference, strict=True):
            shown = labels.percent(*tables.mean_std(row["last5"]), digits=1)
            pairs = zip(row["last5"], other["last5"], strict=True)
            gap = 100 * statistics.fmean(a - b for a, b in pairs)
            cells[f"ε = {other['epsilon']:g}"] = shown + (
                "" if name == "none" else f" ({gap:+.1f})"
            )
        spent = ", ".join(f"{row['epsilon_spent_pld']:.2f}" for row in results["rows"])
        spent += ", and R itself" if name == "none" else ""
        rows.append(cells | {f"ε spent (PLD) at ε = {', '.join(epsilons)}": spent})
    return markdown(rows)


def same_spent_table(by_release: dict[str, Json]) -> str:
    """Accuracy by the ε that was spent, each release at an ε of its own."""
    rows, without_noise = [], []
    for results in by_release.values():
        without_noise += results.get("without_noise", [])
        config = results["config"]
        for row in results["rows"]:
            shown = spent.marked(f"{row['epsilon_spent_pld']:.2f}", row["status"])
            rows.append(
                {
                    "release": f"`{_release(config['contribution_release'])}`",
                    "sensitivity": f"`{config['sensitivity']}`",
                    "ε per upload": f"{row['epsilon']:g}",
                    "ε spent (PLD)": shown,
                    "test accuracy, %": labels.percent(
                        *tables.mean_std(row["last5"]), digits=1
                    ),
                }
            )
    rows.sort(key=lambda row: float(row["ε spent (PLD)"].split()[0]))
    undefended = labels.percent(*tables.mean_std(without_noise), digits=1)
    return f"{markdown(rows)}\nWithout noise: {undefended}."


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the computed files and the page's blocks; returns the page."""
    results = docs_dir / "results" / "privacy"
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / "composition.json", composition())
    write_json(results / "release_cost.json", release_cost())
    write_json(results / "promise.json", promise())

    def block(table: Callable[[Json], str], name: str) -> Callable[[], str]:
        return docs_blocks.made_from(results / f"{name}.json", table)

    def released(table: Callable[[dict[str, Json]], str], *names: str) -> str:
        paths = {name: results / f"release_{name}.json" for name in names}
        if not all(path.exists() for path in paths.values()):
            return MISSING
        return table({name: json.loads(paths[name].read_text()) for name in names})

    private = ("laplace", "randomized_response")
    blocks: dict[str, Callable[[], str]] = {
        "promise": block(promise_table, "promise"),
        "composition": block(composition_table, "composition"),
        "budgets": block(budgets_table, "budgets"),
        "batches": block(batches_table, "batches"),
        "release_cost": block(release_cost_table, "release_cost"),
        "noise_scale": block(noise_scale_table, "noise_scale"),
        "release_accuracy": partial(released, release_accuracy_table, *_RELEASES),
        "same_spent": partial(released, same_spent_table, *private, *_MORE_RELEASES),
    }
    return docs_blocks.rewrite(docs_dir / "results" / "guarantees.md", blocks)
