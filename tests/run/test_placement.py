"""The same bits on any layout of up to eight devices, both axes dealt or one.

  python test_placement.py '[[COHORT, CHUNK, SWEEP_DEVICES, NUM_DEVICES], ...]'

A line a layout: the SHA-256 of every cell's parameters after three rounds. There are
two cells where SWEEP_DEVICES > 0; 0 stands for one cell. A fifth entry is a JSON object
of other settings; `side` of 32 enlarges the images to 32×32. Layouts of an equal plan
share their compiled rounds.
"""

import dataclasses
import json
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from commands import ROOT, environment
from small_runs import digits, small, small_trainer

from fedsvp_jax.core.tree import cell_of, params_sha256
from fedsvp_jax.mechanisms import mechanism_names
from fedsvp_jax.run.placement import Placement

RESIDUES = {"noise_sampler": "discrete", "noise_trust": "secure_aggregation"}


def hashes(*layouts: tuple[Any, ...], threads: int | None = None) -> list[list[str]]:
    """The cells' hashes for each layout, from a process with eight virtual devices."""
    pool = {} if threads is None else {"NPROC": str(threads)}
    places = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'helpers'}"}
    ended = subprocess.run(
        [sys.executable, __file__, json.dumps(layouts)],
        env=environment() | places | pool,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def hashes_here(
    cohort: int, chunk: int, sweep: int, devices: int, changes: dict[str, Any]
) -> list[str]:
    """Of each cell."""
    data, side = digits(), changes.pop("side", 8)
    if side != 8:
        larger = np.ones((1, side // 8, side // 8, 1), np.uint8)
        train, test = (
            np.kron(images, larger) for images in (data.train_inputs, data.test_inputs)
        )
        data = dataclasses.replace(data, train_inputs=train, test_inputs=test)
    told = {"num_clients": 12, "cohort_size": cohort, "client_chunk_size": chunk}
    told |= {"class_share": 0.02, "num_rounds": 3}
    epsilons = (0.3, 0.7) if sweep else (0.5,)
    configs = [small(**told | {"epsilon": epsilon} | changes) for epsilon in epsilons]
    placement = Placement(
        num_devices=devices, sweep_devices=max(1, sweep), rounds_per_call=3
    )
    trainer = small_trainer(*configs, data=data, placement=placement)
    state, _ = trainer.advance(trainer.initial_state(), 0, 3)
    params = jax.device_get(state.params)
    return [params_sha256(cell_of(params, cell)) for cell in range(len(configs))]


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
    {"mechanism": "gaussian", "clipping": "attribute_records"},
    {"mechanism": "nbafl", "clipping": "per_example"},
    {"shapley": "additive", "num_attributes": 5, "epsilon": 0.3},
    {"shapley": "gp", "num_attributes": 4, "shapley_trainings": 2},
    {"model": "small_cnn"},
    {"mechanism": "gaussian", "clipping": "update_clip", **RESIDUES},
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
    assert model != "mlp" or all(one == by_threads[0] for one in by_threads)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    for layout in json.loads(sys.argv[1]):
        changes = layout[4] if len(layout) > 4 else {}
        print(json.dumps(hashes_here(*layout[:4], changes)), flush=True)
