"""A sweep on Ray: each part of its cells is one task, on any machine of the cluster.

  pip install ray
  python examples/ray_sweep.py runs/ray

Write your settings into BASE and PLAN. The folder must be one that all machines see. A
task whose process or machine died is started again by Ray and goes on from its last
checkpoint. In the end runs/ray/all holds the whole sweep, with the bytes of the sweep
in one process.
"""

import dataclasses
import pathlib
import sys

import ray

from fedsvp_jax import report
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.run.options import Options
from fedsvp_jax.run.parts import merge
from fedsvp_jax.run.sweep import SweepPlan, sweep

BASE = resolve(ExperimentConfig(dataset="digits", num_rounds=10))
PLAN = SweepPlan(mechanisms=("nbafl", "fedsva"), epsilons=(0.2, 0.5), seeds=(0, 1))
NUM_PARTS = 4


@ray.remote(num_cpus=1, max_retries=3)  # with GPUs: num_gpus=1
def run_part(number: int, folder: pathlib.Path) -> pathlib.Path:
    """Runs part `number` of the cells in `folder`, which it returns."""
    part = dataclasses.replace(PLAN, part=f"{number}/{NUM_PARTS}")
    sweep(BASE, part, folder, options=Options(resume=True))
    return folder


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1]).absolute()
    ray.init()
    tasks = [run_part.remote(k, root / f"part-{k}") for k in range(1, NUM_PARTS + 1)]
    merge(ray.get(tasks), root / "all")
    print(report.write_sweep_report(root / "all"))
