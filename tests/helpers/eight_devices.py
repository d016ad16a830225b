"""Runs layouts on eight virtual devices; prints each layout's hashes.

  python eight_devices.py '[[COHORT, CHUNK, SWEEP_DEVICES, NUM_DEVICES], ...]'

A line a layout: the SHA-256 of every cell's parameters after three rounds. There are
two cells where SWEEP_DEVICES > 0; 0 stands for one cell. A fifth entry is a JSON object
of other settings; `side` of 32 enlarges the images to 32×32. Layouts of an equal plan
share their compiled rounds.
"""

import dataclasses
import json
import sys
from typing import Any

import jax
import numpy as np
from small_runs import digits, small, small_trainer

from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.tree import cell_of, params_sha256


def hashes(
    cohort: int, chunk: int, sweep: int, devices: int, changes: dict[str, Any]
) -> list[str]:
    """Of each cell."""
    data, changes = digits(), dict(changes)
    if (side := changes.pop("side", 8)) != 8:
        larger = np.ones((1, side // 8, side // 8, 1), np.uint8)
        train, test = (
            np.kron(images, larger) for images in (data.train_inputs, data.test_inputs)
        )
        data = dataclasses.replace(data, train_inputs=train, test_inputs=test)
    configs = [
        small(
            **{
                "num_clients": 12,
                "cohort_size": cohort,
                "client_chunk_size": chunk,
                "class_share": 0.02,
                "num_rounds": 3,
                "epsilon": epsilon,
            }
            | changes,
        )
        for epsilon in ((0.3, 0.7) if sweep else (0.5,))
    ]
    placement = Placement(
        num_devices=devices, sweep_devices=max(1, sweep), rounds_per_call=3
    )
    trainer = small_trainer(*configs, data=data, placement=placement)
    state, _ = trainer.advance(trainer.initial_state(), 0, 3)
    params = jax.device_get(state.params)
    return [params_sha256(cell_of(params, cell)) for cell in range(len(configs))]


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    for layout in json.loads(sys.argv[1]):
        changes = layout[4] if len(layout) > 4 else {}
        print(json.dumps(hashes(*layout[:4], changes)), flush=True)
