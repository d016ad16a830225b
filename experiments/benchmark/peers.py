"""Times this library and its peers on the same works, in turn.

  python -m experiments.benchmark.peers --environments=V --turns=3

runs, turn by turn, `experiments.benchmark` on each work, then the peers' scripts
(--scripts) on the same work, each with V/NAME/bin/python of its own environment. A JSON
line a row is added to --results, so that further turns, of all works or some, go on
where the file ends; `experiments.benchmark.docs_page` writes the table. A peer that was
disturbed (others_cores > 0.2) is timed once more.
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from absl import flags
from tqdm import tqdm

from .. import command

flags.DEFINE_string("scripts", "../shared/peers", "Folder of the peers' scripts.")
flags.DEFINE_string(
    "environments", None, "Folder that holds torch/, pfl/, flower/, fedjax/ (venvs)."
)
flags.DEFINE_integer("turns", 3, "How often everything is timed.", lower_bound=1)
flags.DEFINE_list("works", ["W1", "W1-DP", "W2", "W3"], "Works, by name.")
flags.DEFINE_list(
    "peers",
    ["torch", "pfl", "flower", "fedjax", "fedjax-newjax"],
    "Environments of the peers that are timed beside us.",
)
flags.DEFINE_integer("rounds", 3, "Timed samples a row.", lower_bound=1)
flags.DEFINE_string("results", "docs/results/peers.jsonl", "Where rows are kept.")

OURS = "fedsvp_jax"
WORKS = ("W1", "W1-DP", "W2", "W3")
# Name -> (environment, script and its arguments, works).
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
}
DISTURBED = 0.2


def _lines(command: list[str], folder: str, **environment: str) -> list[dict[str, Any]]:
    """The JSON lines that a command prints.

    Raises:
      ValueError: the command failed; its last line of standard error is told.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"{' '.join(command)} failed: {last}")
    lines = done.stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def _ours(work: str, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "experiments.benchmark", "--device=cpu"]
    (row,) = _lines([*command, f"--works={work}", f"--rounds={rounds}"], ".")
    return {
        "seconds_median": row["seconds_per_round_median"],
        "seconds_min": row["seconds_per_round_min"],
        "seconds_max": row["seconds_per_round_max"],
        **{k: row[k] for k in ("compile_seconds", "peak_mb", "gemm_fraction")},
    }


def _theirs(name: str, work: str, rounds: int, values: Any) -> dict[str, Any]:
    environment, (script, *more), _ = PEERS[name]
    python = pathlib.Path(values.environments).resolve() / environment / "bin/python"
    timed = rounds if work in ("W1", "W1-DP", "W3") else 10 * rounds
    arguments = ["--work", work.lower().replace("-", ""), "--rounds", str(timed)]
    command = [str(python), script, *more, *arguments, "--warmup", "1"]
    for _ in range(2):
        (row,) = _lines(command, values.scripts, PEERS_WAIT="20")
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


def measure(values: Any) -> None:
    """Appends a row a turn, library and work to the results."""
    file = pathlib.Path(values.results)
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = kept_rows(file)
    before = max((row["turn"] for row in rows), default=0)
    jobs = [
        (before + turn, work, who)
        for turn in range(1, values.turns + 1)
        for work in values.works
        for who in (OURS, *_peers(work, values.peers))
    ]
    for turn, work, who in tqdm(jobs, unit="row", disable=None):
        mine = who == OURS
        rounds = min(values.rounds, 2) if work == "W3" else values.rounds
        timed = _ours(work, rounds) if mine else _theirs(who, work, rounds, values)
        rows.append({"turn": turn, "work": work, "who": who, **timed})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _peers(work: str, environments: list[str]) -> list[str]:
    return [
        name
        for name, (environment, _, works) in PEERS.items()
        if work in works and environment in environments
    ]


def kept_rows(file: pathlib.Path) -> list[dict[str, Any]]:
    """The lines of a json-lines file; none when it is not there."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def main(_: list[str]) -> None:
    """Times the turns that the flags name."""
    values = flags.FLAGS
    unknown = set(values.works) - set(WORKS)
    if unknown:
        raise ValueError(
            f"works must be of {', '.join(WORKS)}, got {', '.join(sorted(unknown))}"
        )
    environments = {environment for environment, _, _ in PEERS.values()}
    unknown = set(values.peers) - environments
    if unknown:
        raise ValueError(
            f"peers must be of {', '.join(sorted(environments))}, got "
            f"{', '.join(sorted(unknown))}"
        )
    if not values.environments:
        raise ValueError("environments must name the folder of the peers' venvs")
    measure(values)
    print(f"files:\n  {values.results}")


if __name__ == "__main__":
    command.run(main, __doc__)
