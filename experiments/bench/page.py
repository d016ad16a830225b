"""Writes the measured parts of docs/performance.md from the files of docs/results.

  python -m experiments.bench.page

A part whose file is not there says so. The files come from `experiments.benchmark`
(bench.jsonl), `experiments.bench.peers` (peers.jsonl) and `experiments.bench.profile`
(profile_W1.json).
"""

import json
import pathlib
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from absl import flags

from experiments import flags as experiment_flags
from experiments.bench import peers
from fedsvp_jax.report import blocks

flags.DEFINE_string("page", "docs/performance.md", "The page.")
flags.DEFINE_string("measurements", "docs/results", "Folder of the measured files.")

_MISSING = "Not measured yet."


def _rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def peers_table(rows: list[dict[str, Any]]) -> str:
    """Seconds a round, median of the turns, and each peer's time over ours."""
    text = [
        "| work | library | s a round: median (least to most of the turns) | "
        "its time over ours, turn by turn | peak MB | compile s |",
        "|---|---|---|---|---|---|",
    ]
    for work in peers.WORKS:
        of_work = [row for row in rows if row["work"] == work]
        ours = {row["turn"]: row for row in of_work if row["who"] == peers.OURS}
        for who in (peers.OURS, *peers.PEERS):
            own = [row for row in of_work if row["who"] == who]
            if not own:
                continue
            medians = [row["seconds_median"] for row in own]
            ratios = [
                r["seconds_median"] / ours[r["turn"]]["seconds_median"] for r in own
            ]
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            marked = any(row.get("others_cores", 0) > peers.DISTURBED for row in own)
            text.append(
                f"| {work} | {who}{' (disturbed)' if marked else ''} | "
                f"{statistics.median(medians):.3g} "
                f"({min(medians):.3g} to {max(medians):.3g}) | "
                f"{shown if who != peers.OURS else '1'} | "
                f"{max(row['peak_mb'] for row in own):.0f} | "
                f"{statistics.median(row['compile_seconds'] for row in own):.1f} |"
            )
    return "\n".join(text)


def bench_table(rows: list[dict[str, Any]]) -> str:
    """What `make bench` printed, with FedSVA's time over FedAvg's beside its bound."""
    text = [
        "| work | mechanism | N | s a round: median (least to most) | over FedAvg | "
        "bound | product rate reached | peak MB | compile s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    fedavg = {r["work"]: r for r in rows if r["mechanism"] == "none"}
    for row in rows:
        bound = row["arithmetic_bound"]
        over = ""
        if bound is not None:
            base = fedavg[row["work"]]["seconds_per_round_median"]
            over = f"{row['seconds_per_round_median'] / base:.2f}"
        text.append(
            f"| {row['work']} | {row['mechanism']} | {row['num_attributes']} | "
            f"{row['seconds_per_round_median']:.3g} "
            f"({row['seconds_per_round_min']:.3g} to "
            f"{row['seconds_per_round_max']:.3g}) | {over} | "
            f"{'' if bound is None else f'{bound:g}'} | {row['gemm_fraction']:.2f} | "
            f"{row['peak_mb']:.0f} | {row['compile_seconds']:.1f} |"
        )
    for row in rows:
        if "sweep_over_singles" in row:
            text.append("")
            text.append(
                f"SWEEP: a round of all cells as one program takes "
                f"{row['sweep_over_singles']:.2f} of the single runs' in turn."
            )
    return "\n".join(text)


def profile_table(found: dict[str, Any]) -> str:
    """Shares of a traced round, and the rate of its products."""
    rate = found["gemm_gflops"]
    text = [
        f"One traced round took {found['round_seconds']:.2f} s, "
        f"{found['attributed_seconds'] / found['round_seconds']:.0%} of it in named "
        f"parts; a float32 product of 4096³ ran at {rate:.0f} GFLOP/s beside it.",
        "",
        "| part | direction | kind | share of the round | GFLOP/s | of the rate |",
        "|---|---|---|---|---|---|",
    ]
    for part in found["parts"]:
        share = part["seconds"] / found["round_seconds"]
        if share < 0.005:
            continue
        speed = part.get("gflops")
        text.append(
            f"| {part['layer']} | {part['direction']} | "
            f"{'products' if part['product'] else 'other'} | {share:.1%} | "
            + (f"{speed:.0f} | {speed / rate:.2f} |" if speed else " | |")
        )
    return "\n".join(text)


# Block -> (file, what is made of its text).
_PARTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "peers": ("peers.jsonl", lambda text: peers_table(_rows(text))),
    "bench": ("bench.jsonl", lambda text: bench_table(_rows(text))),
    "profile": ("profile_W1.json", lambda text: profile_table(json.loads(text))),
}


def _block(folder: pathlib.Path, name: str) -> str:
    file, render = _PARTS[name]
    path = folder / file
    return render(path.read_text()) if path.exists() else _MISSING


def main(_: list[str]) -> None:
    """Rewrites the page."""
    values = flags.FLAGS
    page = pathlib.Path(values.page)
    folder = pathlib.Path(values.measurements)
    parts = {name: partial(_block, folder, name) for name in _PARTS}
    page.write_text(blocks.rewritten(page.read_text(), parts))
    print(f"files:\n  {page}")


if __name__ == "__main__":
    experiment_flags.run(main, __doc__)
