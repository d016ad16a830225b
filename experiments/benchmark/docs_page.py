"""Writes the measured tables of performance.md, scaling.md, choose_epsilon.md.

  python -m experiments.pages performance

The tables are made from the files of docs/results; a table whose file is missing says
that nothing was measured. The files are those of `experiments.benchmark` (bench.jsonl),
`experiments.benchmark.peers` (peers.jsonl) and `experiments.benchmark.profile`
(profile_W1.json); the benchmark's rows on a GPU (bench_gpu.jsonl) and under several
Pythons (bench_pythons.jsonl); those of finished studies, whose code the pages name
(scaling.json, lowering.json, number_formats.json); and table.md of two sweeps, whose
commands are in docs/useful_model.md (choose_epsilon_nominal.md and
choose_epsilon_proved.md).
"""

import json
import pathlib
import statistics
from collections.abc import Callable
from typing import Any

from fedsvp_jax.report import labels, tables
from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks
from . import peers, profile

_REQUIRED_RATIOS = {  # (workload, library) -> least ratio of its time to ours
    ("W1", "PyTorch loop, lean"): 1.0,
    ("W1", "pfl"): 1.0,
    ("W1", "Flower, 2 Ray actors"): 1.3,
    ("W1", "fedjax, its own JAX 0.5.3"): 2.5,
    ("W1-DP", "PyTorch loop, lean"): 1.0,
    ("W2", "PyTorch loop, lean"): 8.0,
    ("W2", "pfl"): 10.0,
    ("W2", "Flower, 2 Ray actors"): 40.0,
    ("W2", "fedjax, its own JAX 0.5.3"): 3.0,
    ("W2", "fedjax on today's JAX"): 3.0,
    ("W3", "PyTorch loop, lean"): 1.0,
}
# workload -> (most MB, most seconds to compile) of ours.
_MOST_MB_AND_COMPILE = {"W1": (800, 6), "W3": (None, 20)}

_MOST_RATIOS = {  # (workload, N, shapley) -> most of its time to FedAvg's
    ("PE-W1", 2, "exact"): 1.9,
    ("PE-W2", 2, "exact"): 2.2,
    ("PE-W1", 5, "additive"): 2.3,
    ("PE-W2", 5, "additive"): 2.3,
    ("PE-W1", 16, "additive"): 3.0,
}


def _range(median: float, least: float, most: float, digits: str = ".3g") -> str:
    return f"{median:{digits}} ({least:{digits}} to {most:{digits}})"


def _seconds(row: dict[str, Any], digits: str = ".3g") -> str:
    median, least, most = (
        row[f"seconds_per_round_{name}"] for name in ("median", "min", "max")
    )
    return _range(median, least, most, digits)


def _requirement(
    work: str, who: str, ratios: list[float], turns: list[dict[str, Any]]
) -> tuple[str, str]:
    """What was asked of us in this row, and "yes" or "no"; both empty if nothing."""
    asked: list[tuple[str, bool]] = []
    least = _REQUIRED_RATIOS.get((work, who))
    if least is not None:
        asked.append((f"ratio ≥ {least}", statistics.median(ratios) >= least))
    limits = _MOST_MB_AND_COMPILE if who == peers.OURS else {}
    most_mb, most_seconds = limits.get(work, (None, None))
    if most_mb is not None:
        most = max(row["peak_mb"] for row in turns)
        asked.append((f"≤ {most_mb} MB", most <= most_mb))
    if most_seconds is not None:
        compiling = statistics.median(row["compile_seconds"] for row in turns)
        asked.append((f"compile ≤ {most_seconds} s", compiling <= most_seconds))
    required = ", ".join(what for what, _ in asked)
    return required, ", ".join("yes" if met else "no" for _, met in asked)


def peers_table(rows: list[dict[str, Any]]) -> str:
    """Seconds per round over the turns, and the ratio of each library's to ours."""
    lines = []
    for work in peers.WORKS:
        of_work = [row for row in rows if row["work"] == work]
        ours = {row["turn"]: row for row in of_work if row["who"] == peers.OURS}
        for who in (peers.OURS, *peers.PEERS):
            turns = [row for row in of_work if row["who"] == who]
            if not turns:
                continue
            medians = [row["seconds_median"] for row in turns]
            compiling = statistics.median(row["compile_seconds"] for row in turns)
            ratios = [
                row["seconds_median"] / ours[row["turn"]]["seconds_median"]
                for row in turns
            ]
            required, met = _requirement(work, who, ratios, turns)
            disturbed = any(
                row.get("others_cores", 0) > peers.DISTURBED for row in turns
            )
            lines.append(
                {
                    "workload": work,
                    "library": f"{who} (disturbed)" if disturbed else who,
                    "seconds per round: median of the turns (min to max)": _range(
                        statistics.median(medians), min(medians), max(medians)
                    ),
                    "their time ÷ ours (each turn)": "1"
                    if who == peers.OURS
                    else ", ".join(f"{ratio:.2f}" for ratio in ratios),
                    "required": required,
                    "requirement met?": met,
                    "peak MB": f"{max(row['peak_mb'] for row in turns):.0f}",
                    "compile s": f"{compiling:.1f}",
                }
            )
    return markdown(lines)


def bench_table(rows: list[dict[str, Any]]) -> str:
    """The rows of `make bench`, with the ratio of FedSVA's time to FedAvg's."""
    lines, notes = [], []
    fedavg = {row["work"]: row for row in rows if row["mechanism"] == "none"}
    for row in rows:
        bound, ratio, asked = row["arithmetic_bound"], "", ""
        values = row.get("shapley", "exact")  # rows of earlier versions name none
        if bound is not None:
            base = fedavg[row["work"]]["seconds_per_round_median"]
            quotient = row["seconds_per_round_median"] / base
            ratio = f"{quotient:.2f}"
            most = _MOST_RATIOS.get((row["work"], row["num_attributes"], values))
            if most is not None:
                asked = f"{most:g}: {'met' if quotient <= most else 'missed'}"
        lines.append(
            {
                "workload": row["work"],
                "mechanism": row["mechanism"],
                "N": str(row["num_attributes"]),
                "Shapley values": values if row["mechanism"] == "fedsva" else "",
                "seconds per round: median (min to max)": _seconds(row),
                "time ÷ FedAvg's": ratio,
                "asked for, at most": asked,
                "arithmetic ÷ FedAvg's, at most": "" if bound is None else f"{bound:g}",
                "share of the matrix-product rate": f"{row['gemm_fraction']:.2f}",
                "peak MB": f"{row['peak_mb']:.0f}",
                "compile s": f"{row['compile_seconds']:.1f}",
            }
        )
        if "sweep_over_singles" in row:
            notes.append(
                "\nSWEEP: a round of all cells as one program takes "
                f"{row['sweep_over_singles']:.2f} times as long as the rounds of the "
                "single runs together.\n"
            )
    return markdown(lines) + "".join(notes)


def pythons_table(rows: list[dict[str, Any]]) -> str:
    """Each workload under every Python of the rows, and the one that is fastest."""
    rows = sorted(rows, key=lambda row: (row["work"], row["num_attributes"]))
    lines = [
        {
            "workload": row["work"],
            "Python": row["versions"]["python"],
            "JAX": row["versions"]["jax"],
            "seconds per round: median (min to max)": _seconds(row),
        }
        for row in rows
    ]
    sentences = []
    for work in dict.fromkeys(row["work"] for row in rows):
        medians = {
            row["versions"]["python"]: row["seconds_per_round_median"]
            for row in rows
            if row["work"] == work
        }
        fastest, slowest = (
            pick(medians, key=medians.__getitem__) for pick in (min, max)
        )
        if fastest != slowest:
            speed = medians[slowest] / medians[fastest]
            sentences.append(
                f"{work} is fastest under Python {fastest}: "
                f"{speed:.2f} times the speed of {slowest}."
            )
    return f"{markdown(lines)}\n{' '.join(sentences)}\n"


def formats_table(measured: dict[str, Any]) -> str:
    """Accuracy in both number formats, and whether they differ by more than a seed."""
    rows = {(row["dataset"], row["compute_dtype"]): row for row in measured["rows"]}
    lines = []
    for dataset in dict.fromkeys(row["dataset"] for row in measured["rows"]):
        wide, narrow = (rows.get((dataset, name)) for name in ("float32", "bfloat16"))
        if wide is None or narrow is None:
            continue
        of_wide, of_narrow = wide["accuracies"], narrow["accuracies"]
        gap = statistics.mean(of_narrow) - statistics.mean(of_wide)
        spread = statistics.stdev(of_wide)
        lines.append(
            {
                "data set": dataset,
                "model": wide["model"],
                "rounds": str(wide["rounds"]),
                "seeds": str(len(of_wide)),
                "float32: mean ± std %": labels.percent(*tables.mean_std(of_wide)),
                "bfloat16: mean ± std %": labels.percent(*tables.mean_std(of_narrow)),
                "difference of the means": f"{100 * gap:+.2f}",
                "within one seed's std": "yes" if abs(gap) <= spread else "no",
            }
        )
    return f"JAX {measured['jax']}, FedAvg.\n\n{markdown(lines)}"


def profile_table(profiled: dict[str, Any]) -> str:
    """Shares of a traced round, and the rate of its matrix products."""
    rate, round_seconds = profiled["gemm_gflops"], profiled["round_seconds"]
    lines = []
    for part in profiled["parts"]:
        share = part["seconds"] / round_seconds
        if share < 0.005:
            continue
        speed = part.get("gflops")
        lines.append(
            {
                "layer or part": part["layer"],
                "direction": part["direction"],
                "kind": "products" if part["product"] else "other",
                "share of the round": f"{share:.1%}",
                "GFLOP/s": f"{speed:.0f}" if speed else "",
                "share of the matrix-product rate": f"{speed / rate:.2f}"
                if speed
                else "",
            }
        )
    return (
        f"One traced round took {round_seconds:.2f} s; "
        f"{profiled['attributed_seconds'] / round_seconds:.0%} of it could be "
        "attributed to the parts below. A float32 matrix product of size 4096³ ran at "
        f"{rate:.0f} GFLOP/s on the same machine.\n\n{markdown(lines)}"
    )


def scaling_table(scaling: dict[str, Any]) -> str:
    """Seconds per round by what varies, and the cost model fitted to them."""
    fit = scaling["fit"]
    lines = [
        {
            "what varies": row["varied"],
            "model": row["model"],
            "D": str(row["num_devices"]),
            "K": str(row["cohort_size"]),
            "N": str(row["num_attributes"]),
            "examples": str(row["examples_per_client"]),
            "seconds per round: median (min to max)": _seconds(row, ".4f"),
            "load before": f"{row['load_before']:.1f}",
            "predicted ÷ measured": f"{ratio:.2f}",
        }
        for row, ratio in zip(
            scaling["rows"], fit["predicted_over_measured"], strict=True
        )
    ]
    by_name = fit["coefficients"]
    return (
        f"{markdown(lines)}\n"
        f"    seconds = {by_name['seconds_a_round']:.2g} + waves · "
        f"({by_name['seconds_a_step']:.2g} · steps + {by_name['seconds_a_gflop']:.2g} "
        f"· GFLOP) + crowd · {by_name['seconds_a_gigabyte_of_uploads']:.2g} · GB of "
        "uploads\n\n"
        f"The prediction is off by {fit['median_error']:.0%} in the median row and by "
        f"{fit['worst_error']:.0%} in the worst, on "
        f"{scaling['environment']['cores']} cores."
    )


def lowering_table(lowering: dict[str, Any]) -> str:
    """What every mechanism's round holds when it is lowered for an accelerator."""
    lines = [
        {
            "mechanism": row["mechanism"],
            "N": str(row["num_attributes"]),
            "platforms": ", ".join(
                name for name, other in row["platforms"].items() if other == program
            ),
            "arrays gathered per turn": str(program["gathers"]),
            "MB gathered per turn": f"{program['gathered_bytes'] / 1e6:.1f}",
            "MB gathered per round": f"{row['gathered_bytes_per_round'] / 1e6:.1f}",
            "MB of state": f"{row['state_bytes'] / 1e6:.1f}",
            "MB of data": f"{row['data_bytes'] / 1e6:.1f}",
            "other collectives": str(program["other_collectives"]),
            "float64 arrays": str(program["float64"]),
            "calls of the host": str(program["host_calls"]),
            "grouped convolutions": str(program["grouped_convolutions"]),
        }
        for row in lowering["rows"]
        for program in {str(one): one for one in row["platforms"].values()}.values()
    ]
    return markdown(lines)


def accelerators_table(rows: list[dict[str, Any]]) -> str:
    """What compilers tell of the rounds of accelerators that were not there."""

    def millions(number: float | None) -> str:
        return "" if number is None else f"{number / 1e6:.3g}"

    lines = [
        {
            "device": row["device"],
            "workload": row["work"],
            "mechanism": row["mechanism"],
            "N": str(row["num_attributes"]),
            "Shapley values": row["shapley"] if row["num_attributes"] > 1 else "",
            "clients · coalitions · cells side by side": " · ".join(
                map(str, row["side_by_side"])
            ),
            "million cycles: a round": millions(row["round_cycles"]),
            "of these a step of all clients": millions(row["step_cycles"]),
            "beside the steps": millions(row["beside_cycles"]),
            "limit ÷ round": f"{row['limit_share']:.2g}" if row["limit_share"] else "",
            "kernels: a step": str(row["step_kernels"] or ""),
            "a round": str(row["round_kernels"] or ""),
            "loops that the host watches": str(row["watched_loops"])
            if row["round_kernels"]
            else "",
            "MB": f"{row['bytes'] / 1e6:.0f}",
            "compile s": f"{row['compile_seconds']:.0f}",
        }
        for row in rows
    ]
    return markdown(lines)


def limits_table(scaling: dict[str, Any]) -> str:
    """Gigabytes that a device holds and receives, from the arrays' shapes."""
    lines = [
        {
            "P": f"{row['parameters']:g}",
            "K": str(row["cohort_size"]),
            "D": str(row["num_devices"]),
            "GB of uploads held": f"{row['gigabytes_of_uploads']:g}",
            "GB of models held (5 · 4P)": f"{row['gigabytes_of_models']:g}",
            "GB received per round": f"{row['gigabytes_received_a_round']:g}",
        }
        for row in scaling["limits"]
    ]
    return markdown(lines)


# Page -> block -> (its file, the function that makes the table of its content).
_PAGES: dict[str, dict[str, tuple[str, Callable[[Any], str]]]] = {
    "performance.md": {
        "peers": ("peers.jsonl", peers_table),
        "bench": ("bench.jsonl", bench_table),
        "bench_gpu": ("bench_gpu.jsonl", bench_table),
        "accelerators": ("accelerators.jsonl", accelerators_table),
        "pythons": ("bench_pythons.jsonl", pythons_table),
        "formats": ("number_formats.json", formats_table),
        "profile": ("profile_W1.json", profile_table),
    },
    "scaling.md": {
        "scaling": ("scaling.json", scaling_table),
        "lowering": ("lowering.json", lowering_table),
        "limits": ("scaling.json", limits_table),
    },
    "results/choose_epsilon.md": {
        name: (f"choose_epsilon_{name}.md", str) for name in ("nominal", "proved")
    },
}


def rewrite(docs_dir: pathlib.Path) -> list[pathlib.Path]:
    """Rewrites the blocks of the pages; returns their paths."""
    return [
        docs_blocks.rewrite(
            docs_dir / page,
            {
                block: docs_blocks.made_from(docs_dir / "results" / file, table)
                for block, (file, table) in blocks.items()
            },
        )
        for page, blocks in _PAGES.items()
    ]


def draw(docs_dir: pathlib.Path, kind: str = "svg") -> list[pathlib.Path]:
    """Draws where a round's time goes; returns the picture's path."""
    path = docs_dir / "images" / f"profile_W1.{kind}"
    kept = docs_dir / "results" / "profile_W1.json"
    profile.draw(json.loads(kept.read_text()), path)
    return [path]
