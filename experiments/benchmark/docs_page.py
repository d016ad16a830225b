"""Writes the measured tables of performance.md, scaling.md and choose_epsilon.md.

  python -m experiments.benchmark.docs_page

The tables are made from the files of docs/results; a table whose file is missing says
that nothing was measured. The files are those of `experiments.benchmark` (bench.jsonl),
`experiments.benchmark.peers` (peers.jsonl), `experiments.benchmark.profile`
(profile_W1.json), `experiments.benchmark.scaling` (scaling.json) and
`experiments.benchmark.lowering` (lowering.json); the benchmark's rows on a GPU
(bench_gpu.jsonl) and under several Pythons (bench_pythons.jsonl); and table.md of two
sweeps, whose commands are in docs/choose_epsilon.md (choose_epsilon_nominal.md and
choose_epsilon_proved.md).
"""

import json
import pathlib
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from absl import flags

from fedsvp_jax.report.tables import markdown_table

from .. import command, docs_blocks
from . import peers

flags.DEFINE_string("pages_dir", "docs", "Folder that holds the pages and results/.")

_MISSING = "Not measured yet."
_REQUIRED_RATIOS = {  # (workload, library) -> least ratio of its time to ours
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


def _range(median: float, least: float, most: float, digits: str = ".3g") -> str:
    return f"{median:{digits}} ({least:{digits}} to {most:{digits}})"


def _seconds(row: dict[str, Any], digits: str = ".3g") -> str:
    median, least, most = (
        row[f"seconds_per_round_{name}"] for name in ("median", "min", "max")
    )
    return _range(median, least, most, digits)


def peers_table(rows: list[dict[str, Any]]) -> str:
    """Seconds per round over the turns, and the ratio of each library's to ours."""
    head = [
        "workload",
        "library",
        "seconds per round: median of the turns (min to max)",
        "their time ÷ ours (each turn)",
        "required ratio",
        "requirement met?",
        "peak MB",
        "compile s",
    ]
    lines = []
    for work in peers.WORKS:
        of_work = [row for row in rows if row["work"] == work]
        ours = {row["turn"]: row for row in of_work if row["who"] == peers.OURS}
        for who in (peers.OURS, *peers.PEERS):
            turns = [row for row in of_work if row["who"] == who]
            if not turns:
                continue
            medians = [row["seconds_median"] for row in turns]
            ratios = [
                row["seconds_median"] / ours[row["turn"]]["seconds_median"]
                for row in turns
            ]
            required = _REQUIRED_RATIOS.get((work, who))
            met = ""
            if required is not None:
                met = "yes" if statistics.median(ratios) >= required else "no"
            disturbed = any(
                row.get("others_cores", 0) > peers.DISTURBED for row in turns
            )
            lines.append(
                [
                    work,
                    f"{who} (disturbed)" if disturbed else who,
                    _range(statistics.median(medians), min(medians), max(medians)),
                    "1"
                    if who == peers.OURS
                    else ", ".join(f"{ratio:.2f}" for ratio in ratios),
                    "" if required is None else str(required),
                    met,
                    f"{max(row['peak_mb'] for row in turns):.0f}",
                    f"{statistics.median(row['compile_seconds'] for row in turns):.1f}",
                ]
            )
    return markdown_table(head, lines)


def bench_table(rows: list[dict[str, Any]]) -> str:
    """The rows of `make bench`, with the ratio of FedSVA's time to FedAvg's."""
    head = [
        "workload",
        "mechanism",
        "N",
        "seconds per round: median (min to max)",
        "time ÷ FedAvg's",
        "arithmetic ÷ FedAvg's, at most",
        "share of the matrix-product rate",
        "peak MB",
        "compile s",
    ]
    lines, notes = [], []
    fedavg = {row["work"]: row for row in rows if row["mechanism"] == "none"}
    for row in rows:
        bound, ratio = row["arithmetic_bound"], ""
        if bound is not None:
            base = fedavg[row["work"]]["seconds_per_round_median"]
            ratio = f"{row['seconds_per_round_median'] / base:.2f}"
        lines.append(
            [
                row["work"],
                row["mechanism"],
                str(row["num_attributes"]),
                _seconds(row),
                ratio,
                "" if bound is None else f"{bound:g}",
                f"{row['gemm_fraction']:.2f}",
                f"{row['peak_mb']:.0f}",
                f"{row['compile_seconds']:.1f}",
            ]
        )
        if "sweep_over_singles" in row:
            notes.append(
                "\nSWEEP: a round of all cells as one program takes "
                f"{row['sweep_over_singles']:.2f} times as long as the rounds of the "
                "single runs together.\n"
            )
    return markdown_table(head, lines) + "".join(notes)


def pythons_table(rows: list[dict[str, Any]]) -> str:
    """Each workload under every Python of the rows, and the one that is fastest."""
    head = ["workload", "Python", "JAX", "seconds per round: median (min to max)"]
    rows = sorted(rows, key=lambda row: (row["work"], row["num_attributes"]))
    lines = [
        [
            row["work"],
            row["versions"]["python"],
            row["versions"]["jax"],
            _seconds(row),
        ]
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
    return f"{markdown_table(head, lines)}\n{' '.join(sentences)}\n"


def profile_table(profiled: dict[str, Any]) -> str:
    """Shares of a traced round, and the rate of its matrix products."""
    rate, round_seconds = profiled["gemm_gflops"], profiled["round_seconds"]
    head = [
        "layer or part",
        "direction",
        "kind",
        "share of the round",
        "GFLOP/s",
        "share of the matrix-product rate",
    ]
    lines = []
    for part in profiled["parts"]:
        share = part["seconds"] / round_seconds
        if share < 0.005:
            continue
        speed = part.get("gflops")
        lines.append(
            [
                part["layer"],
                part["direction"],
                "products" if part["product"] else "other",
                f"{share:.1%}",
                f"{speed:.0f}" if speed else "",
                f"{speed / rate:.2f}" if speed else "",
            ]
        )
    return (
        f"One traced round took {round_seconds:.2f} s; "
        f"{profiled['attributed_seconds'] / round_seconds:.0%} of it could be "
        "attributed to the parts below. A float32 matrix product of size 4096³ ran at "
        f"{rate:.0f} GFLOP/s on the same machine.\n\n{markdown_table(head, lines)}"
    )


def scaling_table(scaling: dict[str, Any]) -> str:
    """Seconds per round by what varies, and the cost model fitted to them."""
    head = [
        "what varies",
        "model",
        "D",
        "K",
        "N",
        "examples",
        "seconds per round: median (min to max)",
        "load before",
        "predicted ÷ measured",
    ]
    fit = scaling["fit"]
    lines = [
        [
            row["varied"],
            row["model"],
            str(row["num_devices"]),
            str(row["cohort_size"]),
            str(row["num_attributes"]),
            str(row["examples_per_client"]),
            _seconds(row, ".4f"),
            f"{row['load_before']:.1f}",
            f"{ratio:.2f}",
        ]
        for row, ratio in zip(
            scaling["rows"], fit["predicted_over_measured"], strict=True
        )
    ]
    by_name = fit["coefficients"]
    return (
        f"{markdown_table(head, lines)}\n"
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
    head = [
        "mechanism",
        "N",
        "platforms",
        "arrays gathered per turn",
        "MB gathered per turn",
        "MB gathered per round",
        "MB of state",
        "MB of data",
        "other collectives",
        "float64 arrays",
        "calls of the host",
        "grouped convolutions",
    ]
    lines = [
        [
            row["mechanism"],
            str(row["num_attributes"]),
            ", ".join(
                name for name, other in row["platforms"].items() if other == program
            ),
            str(program["gathers"]),
            f"{program['gathered_bytes'] / 1e6:.1f}",
            f"{row['gathered_bytes_per_round'] / 1e6:.1f}",
            f"{row['state_bytes'] / 1e6:.1f}",
            f"{row['data_bytes'] / 1e6:.1f}",
            str(program["other_collectives"]),
            str(program["float64"]),
            str(program["host_calls"]),
            str(program["grouped_convolutions"]),
        ]
        for row in lowering["rows"]
        for program in _distinct(row["platforms"].values())
    ]
    return markdown_table(head, lines)


def _distinct(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items without those that equal an earlier one."""
    kept: list[dict[str, Any]] = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept


def limits_table(scaling: dict[str, Any]) -> str:
    """Gigabytes that a device holds and receives, from the arrays' shapes."""
    head = [
        "P",
        "K",
        "D",
        "GB of uploads held",
        "GB of models held (5 · 4P)",
        "GB received per round",
    ]
    lines = [
        [
            f"{row['parameters']:g}",
            str(row["cohort_size"]),
            str(row["num_devices"]),
            f"{row['gigabytes_of_uploads']:g}",
            f"{row['gigabytes_of_models']:g}",
            f"{row['gigabytes_received_a_round']:g}",
        ]
        for row in scaling["limits"]
    ]
    return markdown_table(head, lines)


def _json(path: pathlib.Path) -> dict[str, Any]:
    return json.loads(path.read_text())


# Page -> block -> (its file, the function that makes the table).
_PAGES: dict[str, dict[str, tuple[str, Callable[[pathlib.Path], str]]]] = {
    "performance.md": {
        "peers": ("peers.jsonl", lambda file: peers_table(peers.read_rows(file))),
        "bench": ("bench.jsonl", lambda file: bench_table(peers.read_rows(file))),
        "bench_gpu": (
            "bench_gpu.jsonl",
            lambda file: bench_table(peers.read_rows(file)),
        ),
        "pythons": (
            "bench_pythons.jsonl",
            lambda file: pythons_table(peers.read_rows(file)),
        ),
        "profile": ("profile_W1.json", lambda file: profile_table(_json(file))),
    },
    "scaling.md": {
        "scaling": ("scaling.json", lambda file: scaling_table(_json(file))),
        "lowering": ("lowering.json", lambda file: lowering_table(_json(file))),
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
    """Rewrites the blocks of the pages; returns their paths."""
    written = []
    for name, blocks in _PAGES.items():
        page = docs_dir / name
        writers = {
            block: partial(_block, docs_dir / "results" / file, render)
            for block, (file, render) in blocks.items()
        }
        page.write_text(docs_blocks.rewritten(page.read_text(), writers))
        written.append(page)
    return written


def main(_: list[str]) -> None:
    """Rewrites the pages."""
    for page in rewrite(pathlib.Path(flags.FLAGS.pages_dir)):
        print(page)


if __name__ == "__main__":
    command.run(main, __doc__)
