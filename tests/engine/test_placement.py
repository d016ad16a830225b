"""The same bits on any layout of up to eight devices, both axes dealt or one."""

import json
import pathlib
import subprocess
import sys

import pytest
from commands import environment

SCRIPT = pathlib.Path(__file__).parents[1] / "helpers" / "eight_devices.py"


def hashes(*layouts: tuple[int, int, int, int]) -> list[list[str]]:
    """A list of the cells' hashes for each (cohort, chunk, sweep devices, devices)."""
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(layouts)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 2])
def test_a_cohort_of_ten_has_the_same_bits_on_one_to_eight_devices(chunk: int) -> None:
    found = hashes(*((10, chunk, 0, devices) for devices in (1, 2, 3, 4, 8)))
    assert all(one == found[0] for one in found)


@pytest.mark.slow
def test_cells_and_clients_dealt_together_have_the_bits_of_one_device() -> None:
    alone, *dealt = hashes((10, 1, 1, 1), (10, 1, 2, 1), (10, 1, 2, 3), (10, 1, 2, 4))
    single = hashes((10, 1, 0, 1))
    assert alone[0] == single[0][0] and alone[0] != alone[1]
    assert all(cells == alone for cells in dealt)
