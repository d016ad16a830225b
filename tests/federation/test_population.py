"""A hundred times the clients take neither more memory nor longer rounds."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.across("memory and time of a streamed run by its clients")

HELPERS = pathlib.Path(__file__).parents[1] / "helpers"
SCRIPT = HELPERS / "population.py"
SMALL, LARGE = 1_000, 100_000


def population(*arguments: str) -> str:
    """What `population.py` prints, on one plain device."""
    kept = {name: v for name, v in os.environ.items() if name != "XLA_FLAGS"}
    found = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=kept | {"PYTHONPATH": str(SCRIPT.parents[1]), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.slow
def test_memory_and_rounds_do_not_grow_with_the_population(
    tmp_path: pathlib.Path,
) -> None:
    """At most 1.5 times the anonymous memory and 1.2 times the round.

    The populations take turns, twice; the better time counts, since others may use
    the machine.
    """
    for count in (SMALL, LARGE):
        population("build", str(tmp_path / f"{count}"), str(count))
    found: dict[int, list[dict[str, float]]] = {SMALL: [], LARGE: []}
    for turn in range(2):
        for count, measured in found.items():
            folder = tmp_path / f"run_{count}_{turn}"
            text = population(
                "train", str(tmp_path / f"{count}"), str(folder), str(count)
            )
            measured.append(json.loads(text))
    print(found)
    memory = {c: max(m["peak_anon_kb"] for m in runs) for c, runs in found.items()}
    seconds = {c: min(m["round_seconds"] for m in runs) for c, runs in found.items()}
    assert memory[LARGE] <= 1.5 * memory[SMALL], memory
    assert seconds[LARGE] <= 1.2 * seconds[SMALL], seconds
