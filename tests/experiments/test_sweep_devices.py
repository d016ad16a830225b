"""A sweep whose cells two devices share has the bits of one."""

import json
import pathlib

import pytest
from commands import program, typed

TWO_DEVICES = """
import runpy, sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_a_sweep_on_two_devices_has_the_bits_of_one(tmp_path: pathlib.Path) -> None:
    line = (
        "experiments.sweep",
        "--dataset=digits",
        "--mechanisms=fedsva",
        "--epsilons=.2,.3,.4,.5",
        "--seeds=0:6",
        "--num_rounds=60",
        "--noreport",
    )
    alone, dealt = tmp_path / "alone", tmp_path / "dealt"
    one = (*line, f"--output_dir={alone}")
    assert typed(*one, timeout=3000).status == 0
    two = (*line, "--sweep_devices=2", f"--output_dir={dealt}")
    assert program(TWO_DEVICES, *two, timeout=3000).status == 0
    one_cells, two_cells = (
        [row["params_sha256"] for row in json.loads((f / "cells.json").read_text())]
        for f in (alone, dealt)
    )
    assert len(set(one_cells)) == 24
    assert one_cells == two_cells
