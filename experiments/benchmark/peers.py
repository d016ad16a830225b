"""Times this library and other libraries on the same workloads, in turn.

  python -m experiments.benchmark.peers --environments=V --scripts=S --turns=3

In every turn it runs `experiments.benchmark` on each workload and then, on the same
workload, the scripts in S, each with V/NAME/bin/python of an environment of its own.
BlazeFL's script is tests/references/blazefl_sim.py and uses the helpers in S.
One JSON line per row is added to docs/results/peers.jsonl, so later turns, of all
workloads or some, continue where the file ends; `experiments.benchmark.docs_page` makes
the table. A library is timed once more if other processes used more than 0.2 cores
meanwhile (others_cores).
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from absl import flags
from tqdm import tqdm

from .. import command, flag_values, kept_rows, provenance, subcommands

flags.DEFINE_string(
    "scripts",
    None,
    "Folder that holds torch_loop.py, pfl_sim.py, flower_sim.py and fedjax_sim.py.",
)
flags.DEFINE_string(
    "environments",
    None,
    "Folder that holds the virtual environments of --peers, by name.",
)
flags.DEFINE_integer("turns", 3, "How often every library is timed.", lower_bound=1)
flags.DEFINE_list("works", ["W1", "W1-DP", "W2", "W3"], "Workloads, by name.")
flags.DEFINE_list(
    "peers",
    ["torch", "pfl", "flower", "fedjax", "fedjax-newjax", "blazefl"],
    "Environments of the libraries that are timed besides this one.",
)
flags.DEFINE_integer("rounds", 3, "Timed samples per row.", lower_bound=1)
RESULTS = pathlib.Path("docs/results/peers.jsonl")

OURS = "fedsvp_jax"
WORKS = ("W1", "W1-DP", "W2", "W3")
# Name -> (environment, script and its arguments, workloads).
PEERS = {
    "PyTorch loop, lean": (
        "torch",
        ("torch_loop.py", "--variant", "lean"),
        WORKS,
    ),
    "pfl": ("pfl", ("pfl_sim.py",), ("W1", "W1-DP", "W2")),
    "Flower, 2 Ray actors": ("flower", ("flower_sim.py",), ("W1", "W2")),
    "fedjax, its own JAX 0.5.3": ("fedjax", ("fedjax_sim.py",), ("W1", "W2")),
    "fedjax on today's JAX": (
        "fedjax-newjax",
        ("fedjax_sim.py", "--shim", "1"),
        ("W2",),
    ),
    "BlazeFL, 2 threads": (
        "blazefl",
        (str(pathlib.Path("tests/references/blazefl_sim.py").resolve()),),
        ("W1", "W2", "W3"),
    ),
}
DISTURBED = 0.2


def _lines(line: list[str], folder: str, **environment: str) -> list[dict[str, Any]]:
    """The JSON lines that a command prints.

    Raises:
      ValueError: the command failed; the message ends with its last line of errors.
    """
    ended = subprocess.run(
        line,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"{' '.join(line)} failed: {last}")
    printed = ended.stdout.splitlines()
    return [json.loads(text) for text in printed if text.startswith("{")]


def _ours(work: str, rounds: int) -> dict[str, Any]:
    line = [sys.executable, "-m", subcommands.module("benchmark"), "--device=cpu"]
    (row,) = _lines([*line, f"--works={work}", f"--rounds={rounds}"], ".")
    return {
        "seconds_median": row["seconds_per_round_median"],
        "seconds_min": row["seconds_per_round_min"],
        "seconds_max": row["seconds_per_round_max"],
        **{k: row[k] for k in ("compile_seconds", "peak_mb", "gemm_fraction")},
    }


def _theirs(
    name: str, work: str, rounds: int, values: flags.FlagValues
) -> dict[str, Any]:
    environment, (script, *more), _ = PEERS[name]
    python = pathlib.Path(values.environments).resolve() / environment / "bin/python"
    timed = rounds if work in ("W1", "W1-DP", "W3") else 10 * rounds
    arguments = ["--work", work.lower().replace("-", ""), "--rounds", str(timed)]
    line = [str(python), script, *more, *arguments, "--warmup", "1"]
    for _ in range(2):
        scripts = str(pathlib.Path(values.scripts).resolve())
        # Our flags for XLA are none that another version of JAX knows.
        (row,) = _lines(
            line, scripts, PEERS_WAIT="20", PYTHONPATH=scripts, XLA_FLAGS=""
        )
        if row["others_cores"] <= DISTURBED:
            break
    return {
        "seconds_median": row["median_s_per_round"],
        "seconds_min": row["min_s"],
        "seconds_max": row["max_s"],
        "compile_seconds": row["compile_s"],
        "peak_mb": row["peak_rss_mb"],
        "others_cores": row["others_cores"],
        "versions": row["versions"],
    }


def measure(values: flags.FlagValues) -> None:
    """Adds one row per turn, workload and library to the results."""
    rows = kept_rows.read(RESULTS)
    before = max((row["turn"] for row in rows), default=0)
    jobs = [
        (before + turn, work, who)
        for turn in range(1, values.turns + 1)
        for work in values.works
        for who in (OURS, *_peers(work, values.peers))
    ]
    for turn, work, who in tqdm(jobs, unit="row", disable=None):
        rounds = min(values.rounds, 2) if work == "W3" else values.rounds
        timed = (
            _ours(work, rounds) if who == OURS else _theirs(who, work, rounds, values)
        )
        stamp = {"provenance": provenance.stamp(None, None)}
        rows.append({"turn": turn, "work": work, "who": who, **timed, **stamp})
        kept_rows.add(RESULTS, rows[-1])


def _peers(work: str, environments: list[str]) -> list[str]:
    return [
        name
        for name, (environment, _, supported) in PEERS.items()
        if work in supported and environment in environments
    ]


def main(_: list[str]) -> None:
    """Times the chosen libraries and workloads."""
    values = flags.FLAGS
    flag_values.refuse_unknown("works", values.works, WORKS)
    environments = [environment for environment, _, _ in PEERS.values()]
    flag_values.refuse_unknown("peers", values.peers, environments)
    for name in ("environments", "scripts"):
        if not values[name].value:
            raise ValueError(f"{name} must name a folder; --help says what it holds")
    measure(values)
    command.print_files([RESULTS])


if __name__ == "__main__":
    command.run(main, __doc__)
