"""What values within one training run cost, beside the other estimators.

  python -m experiments.shapley.in_run_cost > docs/results/shapley_in_run/cost.jsonl

Times one client of the benchmark's workloads (W1, W2), in seconds of CPU time, which
other work on the machine disturbs less than its clock: the local training alone, with
the values of --shapley=exact (up to N = 5) and of --shapley=additive
--shapley_trainings=0, and with those of `in_run`. All of them are called in turn,
--turns times, after one call that compiles. Prints one JSON line per workload and N,
with the medians in units of the local training.
"""

import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from absl import flags

from fedsvp_jax import prng
from fedsvp_jax.algorithm import client
from fedsvp_jax.algorithm.address import Address
from fedsvp_jax.algorithm.privacy_estimation import estimate_contribution
from fedsvp_jax.algorithm.task import rows_of
from fedsvp_jax.federation import Program
from fedsvp_jax.structs import Weights
from fedsvp_jax.tree import cell_of

from .. import command
from ..benchmark import workloads
from ..benchmark.measure import make_trainer
from .in_run import in_run

flags.DEFINE_integer("turns", 5, "Calls of each, after the first.", lower_bound=1)

_MOST_EXACT = 5  # attributes: N = 16 would train 65,534 coalitions


def _calls(program: Program) -> dict[str, Callable[..., Any]]:
    """Every estimator as a function of (state, client, key)."""
    plan, cell = program.plan, cell_of(program.cells, 0)

    def local(state: Any, client_id: Any, key: Any) -> Any:
        held = cell_of(cell.split, client_id)
        return client.train(
            program.model,
            plan.recipe,
            cell.rates,
            Weights(state.params, state.stats),
            rows_of(program.data.examples, held),
            Address(key, client_id),
        )

    def estimated(estimation: Any, state: Any, client_id: Any, key: Any) -> Any:
        return estimate_contribution(
            program.model,
            plan.recipe,
            cell.rates,
            estimation,
            Weights(state.params, state.stats),
            program.data.examples,
            cell_of(cell.split, client_id),
            Address(key, client_id),
        )

    calls: dict[str, Callable[..., Any]] = {"local": local}
    name = "exact" if plan.estimation.estimator == "exact" else "additive:0"
    calls[name] = partial(estimated, plan.estimation)
    for order in (1, 2):
        calls[f"in_run:{order}"] = partial(in_run, program, order)
    return {name: jax.jit(call) for name, call in calls.items()}


def measure(
    calls: dict[str, Callable[..., Any]], state: Any, key: Any, turns: int
) -> dict[str, float]:
    """Median seconds of CPU time of every call, taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(turns + 1):
        for name, call in calls.items():
            start = time.process_time()
            jax.block_until_ready(call(state, jnp.int32(turn), key))
            if turn:
                times[name].append(time.process_time() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main(_: list[str]) -> None:
    """Prints one line per workload and number of attributes."""
    for name in ("PE-W1", "PE-W2"):
        fedavg, *_rest = workloads.of_name(name)
        for number in (2, 5, 16):
            if number > fedavg.task.train:
                continue
            calls: dict[str, Callable[..., Any]] = {}
            names = ("exact", "additive") if number <= _MOST_EXACT else ("additive",)
            for shapley in names:
                workload = dataclasses.replace(
                    fedavg, mechanism="fedsva", num_attributes=number, shapley=shapley
                )
                trainer = make_trainer(workload)
                state = cell_of(trainer.initial_state(), 0)
                calls |= _calls(trainer.program)
            taken = measure(calls, state, prng.root_key(0), flags.FLAGS.turns)
            row = {
                "work": name.removeprefix("PE-"),
                "num_attributes": number,
                "local_cpu_seconds": taken["local"],
                "validation_examples": fedavg.task.validation,
                "batch_size": fedavg.task.batch,
                "over_local": {n: t / taken["local"] for n, t in taken.items()},
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    command.run(main, __doc__)
