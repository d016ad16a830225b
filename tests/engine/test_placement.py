"""The same bits on any layout of up to eight devices, both axes dealt or one."""

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from commands import environment
from fault_rows import keep

from fedsvp_jax.mechanisms import mechanism_names

RESIDUES = {"noise_sampler": "discrete", "noise_trust": "secure_aggregation"}
SCRIPT = pathlib.Path(__file__).parents[1] / "helpers" / "eight_devices.py"


def hashes(*layouts: tuple[Any, ...], threads: int | None = None) -> list[list[str]]:
    """The cells' hashes for each (cohort, chunk, sweep devices, devices, settings)."""
    pool = {} if threads is None else {"NPROC": str(threads)}
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(layouts)],
        env=environment() | pool,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.slow
def test_cells_and_clients_dealt_together_have_the_bits_of_one_device() -> None:
    alone, *dealt = hashes((10, 5, 1, 1), (10, 5, 2, 1), (10, 5, 2, 2))
    single = hashes((10, 5, 0, 1, {"epsilon": 0.3}))
    assert alone[0] == single[0][0] and alone[0] != alone[1]
    assert all(cells == alone for cells in dealt)


BY_EPSILON = [  # at .3 and .7 one device divided by ε, two multiplied by 1/ε
    pytest.param(
        5, (2,), {"mechanism": name, "epsilon": epsilon}, marks=pytest.mark.hole
    )
    for name in ("fedsva", "fedsdp")
    for epsilon in (0.3, 0.5, 0.7)
]
OTHERS: list[dict[str, Any]] = [
    {"mechanism": "nbafl", "server_optimizer": "adam"},
    {"mechanism": "gaussian", "sensitivity": "attribute_records"},
    {"mechanism": "nbafl", "sensitivity": "per_example"},
    {"shapley": "additive", "num_attributes": 5, "epsilon": 0.3},
    {"shapley": "gp", "num_attributes": 4, "shapley_trainings": 2},
    {"model": "small_cnn", "compute_dtype": "bfloat16"},
    {"mechanism": "gaussian", "sensitivity": "update_clip", **RESIDUES},
    {"mechanism": "dp_fedavg", "adaptive_clip": True},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chunk", "devices", "changes"),
    [
        *((chunk, (2, 3, 4, 8), {}) for chunk in (1, 2)),
        *BY_EPSILON,
        *((5, (2,), changes) for changes in OTHERS),
    ],
    ids=str,
)
def test_a_round_of_ten_clients_has_the_bits_of_one_device_on_more(
    chunk: int, devices: tuple[int, ...], changes: dict[str, Any]
) -> None:
    found = hashes(*((10, chunk, 0, number, changes) for number in (1, *devices)))
    assert all(one == found[0] for one in found)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "side"), [("mlp", 8), ("small_cnn", 32)])
@pytest.mark.parametrize("name", mechanism_names())
def test_bits_follow_the_threads_of_convolutions_and_nothing_else(
    name: str, model: str, side: int
) -> None:
    """config.json tells the threads, and a run is not resumed with others."""
    changes = {"mechanism": name, "model": model, "side": side}
    changes |= {"num_rounds": 2, "class_share": 0.01}
    epsilons, devices, threads = (0.3, 0.5, 0.7), (1, 2, 8), (1, 2, 4)
    layouts = [
        (10, 5, 0, number, changes | {"epsilon": epsilon})
        for number in devices
        for epsilon in epsilons
    ]
    by_threads = []
    for number in threads:
        found = hashes(*layouts, threads=number)
        one, *others = (found[i : i + 3] for i in range(0, len(found), 3))
        assert all(other == one for other in others), number
        by_threads.append(one)
    same = all(one == by_threads[0] for one in by_threads)
    assert same or model != "mlp"
    tried = len(layouts) * len(threads)
    keep("layouts", f"{name}, {side}×{side}", tried=tried, held=tried,
         others_by_threads=not same)  # fmt: skip
