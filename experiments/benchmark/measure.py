"""Times one row of the benchmark."""

import dataclasses
import resource
import statistics
import time
import timeit
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.files import Record
from fedsvp_jax.devices.target import Target
from fedsvp_jax.federation import build, loading
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.sweep import SweepPlan
from fedsvp_jax.run.trainer import Trainer

from .. import provenance
from . import arithmetic, workloads
from .workloads import Workload

_GEMM_SIZE = {"cpu": 4096, "gpu": 8192}
_EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5)


def gemm_gflops(size: int, dtype: str) -> float:
    """The best rate of a (size, size) matrix product, in GFLOP/s.

    float32 has JAX's default precision, as in the models (TF32 on a recent GPU).
    """
    a = jax.random.normal(jax.random.key(0), (size, size), jnp.dtype(dtype))
    product = jax.jit(jnp.matmul)
    times = timeit.repeat(lambda: product(a, a).block_until_ready(), repeat=4, number=1)
    return 2 * size**3 / min(times[1:]) / 1e9  # the first call compiles


def peak_mb() -> float:
    """Peak memory so far in MiB: of the process on a CPU, of the device on a GPU."""
    if jax.default_backend() == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return jax.devices()[0].memory_stats()["peak_bytes_in_use"] / 2**20


def make_trainer(
    workload: Workload,
    placement: Placement | None = None,
    target: Target | None = None,
    num_seeds: int = 1,
) -> Trainer:
    """A trainer of a workload, for a target, whose cells are so many seeds."""
    config, data = workloads.make_config(workload), workloads.make_dataset(workload)
    configs = [dataclasses.replace(config, seed=seed) for seed in range(num_seeds)]
    return Trainer(build(configs, data, target=target), placement=placement)


def timed(trainer: Trainer, samples: int) -> dict[str, float]:
    """The keys of a row that come from the clock.

    The first call compiles. `compile_seconds` is the time of the initial state and of
    the first call, less the median time of a call.
    """
    rounds = trainer.placement.rounds_per_call
    start, ends = time.perf_counter(), []
    state = trainer.initial_state()
    for call in range(1 + samples):
        state, _ = jax.block_until_ready(trainer.advance(state, call * rounds, rounds))
        ends.append(time.perf_counter())
    times = (np.diff(ends) / rounds).tolist()
    median = statistics.median(times)
    return {
        "seconds_per_round_median": median,
        "seconds_per_round_min": min(times),
        "seconds_per_round_max": max(times),
        "compile_seconds": ends[0] - start - median * rounds,
        "peak_mb": peak_mb(),
    }


def row(name: str, trainer: Trainer, samples: int, notes: Sequence[str]) -> Record:
    """The keys that every workload reports; docs/results/performance.md explains them.

    The round's peak memory is known before the matrix products are timed, which use
    memory too.
    """
    clock = timed(trainer, samples)
    plan, num_cells = trainer.program.plan, len(trainer.program.configs)
    rate = gemm_gflops(_GEMM_SIZE[jax.default_backend()], plan.recipe.compute_dtype)
    flops = num_cells * sum(arithmetic.round_flops(trainer))
    return {
        "work": name,
        "mechanism": plan.mechanism,
        "num_attributes": plan.estimation.num_attributes,
        "shapley": plan.estimation.estimator,
        **clock,
        "gemm_gflops": rate,
        "gemm_fraction": flops / clock["seconds_per_round_median"] / 1e9 / rate,
        "note": "; ".join(notes),
        "provenance": provenance.stamp(None, seed=0),
    }


def _calls(rounds: int = 1) -> Placement:
    """Calls of so many rounds; on a GPU, where a call costs the host, of 20."""
    return Placement(rounds_per_call=20 if jax.default_backend() == "gpu" else rounds)


def measure_workload(workload: Workload, rounds: int) -> Record:
    """The row of a workload that is not the sweep."""
    calls = _calls(workload.rounds_per_call)
    trainer = make_trainer(workload, calls)
    samples = min(rounds, workload.most_samples)
    notes = [f"samples: {samples} of {calls.rounds_per_call} rounds"]
    if workload.name.startswith("PE"):
        training, estimation = arithmetic.round_flops(trainer)
        ratio = (training + estimation) / training
        notes.append(f"cohort {workload.cohort_size}")
        notes.append(f"arithmetic counted: {ratio:.3f} times FedAvg's")
    return row(workload.name, trainer, samples, notes)


def measure_sweep(rounds: int) -> Record:
    """FedSVA on digits: 5 epsilons x 5 seeds as one program, and one of them alone.

    No compilation is in the ratio to 25 single runs. Cells run one after another on a
    CPU and side by side on a GPU, as in `experiments.sweep`.
    """
    base = resolve(ExperimentConfig(dataset="digits", mechanism="fedsva"))
    base = dataclasses.replace(base, eval_every=base.num_rounds)
    configs = SweepPlan(("fedsva",), _EPSILONS, tuple(range(5))).cells(base, "fedsva")
    dataset = loading.load_dataset(base)
    calls = _calls()
    trainer = Trainer(build(configs, dataset), placement=calls)
    notes = [
        f"samples: {rounds} of {calls.rounds_per_call} rounds of all cells",
        "arithmetic counted for the largest client",
    ]
    of_all = row(workloads.SWEEP, trainer, rounds, notes)
    single = timed(Trainer(build(configs[:1], dataset), placement=calls), rounds)
    singles = len(configs) * single["seconds_per_round_median"]
    return of_all | {
        "singles_seconds": singles,
        "sweep_over_singles": of_all["seconds_per_round_median"] / singles,
    }


def measure(name: str, index: int, device: str | None, rounds: int) -> Record:
    """Row number `index` of a workload; a device of None is the one that JAX prefers.

    Raises:
      ValueError: this machine's device is another.
    """
    if device not in (None, jax.default_backend()):
        raise ValueError(
            f"device must be {jax.default_backend()} on this machine, got {device}"
        )
    if name == workloads.SWEEP:
        return measure_sweep(rounds)
    return measure_workload(workloads.of_name(name)[index], rounds)
