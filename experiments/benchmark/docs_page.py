"""Writes the measured parts of performance.md, scaling.md and choose_epsilon.md.

  python -m experiments.benchmark.docs_page

They come from the files of docs/results; a part whose file is not there says so. The
files are those of `experiments.benchmark` (bench.jsonl), `experiments.benchmark.peers`
(peers.jsonl), `experiments.benchmark.profile` (profile_W1.json) and
`experiments.benchmark.scaling` (scaling.json), and table.md of two sweeps, whose
commands are in docs/choose_epsilon.md (choose_epsilon_nominal.md and
choose_epsilon_proved.md).
"""

import json
import pathlib
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from absl import flags

from .. import command, docs_blocks
from . import peers

flags.DEFINE_string("pages_dir", "docs", "Folder of the pages, and of results/.")

_MISSING = "Not measured yet."
_TARGETS = {  # (work, peer) -> its time over ours that was asked for, at least
    ("W1", "PyTorch loop, lean"): 0.8,
    ("W1", "pfl"): 0.8,
    ("W1", "Flower, 2 Ray actors"): 1.3,
    ("W1", "fedjax, its own JAX 0.5.3"): 2.5,
    ("W2", "PyTorch loop, lean"): 8.0,
    ("W2", "pfl"): 10.0,
    ("W2", "Flower, 2 Ray actors"): 40.0,
    ("W2", "fedjax, its own JAX 0.5.3"): 3.0,
    ("W2", "fedjax on today's JAX"): 3.0,
    ("W3", "PyTorch loop, lean"): 0.8,
}


def peers_table(rows: list[dict[str, Any]]) -> str:
    """Seconds a round, median of the turns, and each peer's time over ours."""
    text = [
        "| work | library | s a round: median (least to most of the turns) | "
        "its time over ours, turn by turn | wanted | met by the median | peak MB | "
        "compile s |",
        "|---|---|---|---|---|---|---|---|",
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
            wanted = _TARGETS.get((work, who))
            met = ""
            if wanted is not None:
                met = "yes" if statistics.median(ratios) >= wanted else "no"
            marked = any(row.get("others_cores", 0) > peers.DISTURBED for row in own)
            text.append(
                f"| {work} | {who}{' (disturbed)' if marked else ''} | "
                f"{statistics.median(medians):.3g} "
                f"({min(medians):.3g} to {max(medians):.3g}) | "
                f"{shown if who != peers.OURS else '1'} | "
                f"{'' if wanted is None else wanted} | {met} | "
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


def scaling_table(found: dict[str, Any]) -> str:
    """Seconds a round by what varies, and the cost model fitted to them."""
    text = [
        "| varied | model | D | K | N | examples | s a round: median (least to most) | "
        "load before | model/measured |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    fit = found["fit"]
    for row, ratio in zip(found["rows"], fit["predicted_over_measured"], strict=True):
        text.append(
            f"| {row['varied']} | {row['model']} | {row['num_devices']} | "
            f"{row['cohort_size']} | {row['num_attributes']} | "
            f"{row['examples_per_client']} | {row['seconds_per_round_median']:.4f} "
            f"({row['seconds_per_round_min']:.4f} to "
            f"{row['seconds_per_round_max']:.4f}) | "
            f"{row['load_before']:.1f} | {ratio:.2f} |"
        )
    by_name = fit["coefficients"]
    text += [
        "",
        f"    seconds = {by_name['seconds_a_round']:.2g} + waves · "
        f"({by_name['seconds_a_step']:.2g} · steps + {by_name['seconds_a_gflop']:.2g} "
        f"· GFLOP) + crowd · {by_name['seconds_a_gigabyte_of_uploads']:.2g} · GB of "
        "uploads",
        "",
        f"Off by {fit['median_error']:.0%} in the median row and by "
        f"{fit['worst_error']:.0%} in the worst, on {found['environment']['cores']} "
        "cores.",
    ]
    return "\n".join(text)


def limits_table(found: dict[str, Any]) -> str:
    """Gigabytes that a device holds and receives, from the arrays' shapes."""
    text = [
        "| P | K | D | uploads held | models (5 · 4P) | received a round |",
        "|---|---|---|---|---|---|",
    ]
    text += [
        f"| {row['parameters']:g} | {row['cohort_size']} | {row['num_devices']} | "
        f"{row['gigabytes_of_uploads']:g} | {row['gigabytes_of_models']:g} | "
        f"{row['gigabytes_received_a_round']:g} |"
        for row in found["limits"]
    ]
    return "\n".join(text)


def _json(path: pathlib.Path) -> dict[str, Any]:
    return json.loads(path.read_text())


# Page -> block -> (file, what is made of it).
_PAGES: dict[str, dict[str, tuple[str, Callable[[pathlib.Path], str]]]] = {
    "performance.md": {
        "peers": ("peers.jsonl", lambda file: peers_table(peers.kept_rows(file))),
        "bench": ("bench.jsonl", lambda file: bench_table(peers.kept_rows(file))),
        "profile": ("profile_W1.json", lambda file: profile_table(_json(file))),
    },
    "scaling.md": {
        "scaling": ("scaling.json", lambda file: scaling_table(_json(file))),
        "limits": ("scaling.json", lambda file: limits_table(_json(file))),
    },
    "choose_epsilon.md": {
        name: (f"choose_epsilon_{name}.md", pathlib.Path.read_text)
        for name in ("nominal", "proved")
    },
}


def _block(path: pathlib.Path, render: Callable[[pathlib.Path], str]) -> str:
    return render(path) if path.exists() else _MISSING


def rewrite(docs_dir: pathlib.Path) -> list[pathlib.Path]:
    """Rewrites the pages' blocks; returns the pages."""
    written = []
    for name, parts in _PAGES.items():
        page = docs_dir / name
        made = {
            block: partial(_block, docs_dir / "results" / file, render)
            for block, (file, render) in parts.items()
        }
        page.write_text(docs_blocks.rewritten(page.read_text(), made))
        written.append(page)
    return written


def main(_: list[str]) -> None:
    """Rewrites the pages."""
    for page in rewrite(pathlib.Path(flags.FLAGS.pages_dir)):
        print(page)


if __name__ == "__main__":
    command.run(main, __doc__)
