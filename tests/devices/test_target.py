"""What a target decides, and that it decides nothing but the last bits."""

import dataclasses
import math
import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import ROOT, start
from hypothesis import given
from hypothesis import strategies as st
from small_runs import shared_trainer, small, small_trainer

from fedsvp_jax import models
from fedsvp_jax.core.structs import cross_entropy
from fedsvp_jax.devices.target import named_target
from fedsvp_jax.federation.plan import choose_parallelism
from fedsvp_jax.round.state import RoundMetrics
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

SIZES = st.integers(1, 400)


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(ValueError, match="target must be one of cpu, tpu, cuda, got"):
        named_target("rocm")


@given(clients=SIZES, coalitions=SIZES, weights=st.integers(1, 10**9))
def test_what_is_side_by_side_has_room_in_memory(
    clients: int, coalitions: int, weights: int
) -> None:
    for platform in ("cuda", "tpu"):
        target = named_target(platform)
        found = target.parallelism(
            clients=clients,
            coalitions=coalitions,
            weights=weights,
            activations=weights,
            alike=False,
        )
        lanes = found.clients * found.coalitions * found.cells
        assert min(found) >= 1 and found.clients <= clients
        assert found.coalitions <= coalitions
        assert lanes == 1 or lanes * 6 * weights <= target.memory // 2


@pytest.mark.parametrize(
    ("platform", "turns", "weights", "data", "devices"),
    [
        ("cpu", 10, 26_000_000, 10**7, 4),  # leaf_cnn
        ("cpu", 3, 26_000_000, 10**7, 3),
        ("cpu", 1, 26_000_000, 10**7, 1),  # all clients side by side already
        ("cpu", 10, 100_000, 10**7, 1),  # a turn is shorter than the wait
        ("cpu", 10, 4 * 10**8, 0, 2),  # 5 copies of 1e8 weights are 2 of 4.3 GB
        ("cpu", 10, 26_000_000, 2**32, 1),  # every device has the data
        ("cuda", 10, 26_000_000, 10**7, 1),
    ],
)
def test_large_models_clients_share_a_cpus_cores(
    platform: str, turns: int, weights: int, data: int, devices: int
) -> None:
    target = named_target(platform)
    sizes = {"turns": turns, "weights": weights, "data": data}
    assert target.client_devices(4, **sizes) == devices


def test_a_trainer_takes_as_many_devices_as_its_program_gains_by() -> None:
    chosen = {"model": "leaf_cnn", "cohort_size": 3}
    for settings, devices in (chosen, 3), ({}, 1):
        trainer = small_trainer(small(**settings))
        assert trainer.placement.num_devices == devices


@pytest.mark.parametrize(("platform", "clients"), [("cuda", 3), ("tpu", 1), ("cpu", 1)])
def test_a_network_with_batch_statistics_has_a_plan(
    platform: str, clients: int
) -> None:
    target = named_target(platform)
    model = models.make_model("resnet18", num_classes=10, kernels=target.platform)
    config = small(model="resnet18", client_chunk_size=None)
    assert choose_parallelism(config, target, model, (32, 32, 3)).clients == clients


@pytest.mark.hole
@pytest.mark.parametrize(("weights", "clients"), [(10**5, 10), (10**8, 1)])
def test_a_large_model_of_ones_own_trains_one_client_at_a_time(
    weights: int, clients: int
) -> None:
    """Its name was taken for mlp's: ten of 10^8 weights asked for 27.9 GB at once."""
    model = models.make_model("mlp", num_classes=10)
    model = model._replace(init=lambda key, batch: (jnp.zeros(weights), {}))
    sizes = {"num_clients": 10, "cohort_size": 10, "partition": "iid"}
    config = small(**sizes, client_chunk_size=None)
    target = named_target("cpu")
    assert choose_parallelism(config, target, model, (8, 8, 1)).clients == clients


def first_round(trainer: Trainer) -> tuple[Any, RoundMetrics]:
    state, metrics = trainer.advance(trainer.initial_state(), 0, 1)
    return jax.device_get(state.params), metrics


FEDAVG: dict[str, Any] = {"mechanism": "none", "num_attributes": 1, "num_rounds": 1}
FEDAVG |= {"l2_norm_clip": math.inf, "client_chunk_size": None, "local_epochs": 2}


@pytest.mark.hole
@pytest.mark.parametrize(("platform", "opened"), [("cuda", 1), ("cpu", 0)])
def test_cudnn_opens_once_before_the_first_round(
    platform: str, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process read its rounds from a cache and ended: "No DNN support"."""
    calls = []
    monkeypatch.setattr(jax.lax, "conv", lambda *args: calls.append(args) or args[0])
    trainer = small_trainer(small(**FEDAVG), target=named_target(platform))
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    assert len(calls) == opened
    trainer.advance(state, 1, 1)
    assert len(calls) == opened


@pytest.mark.hole
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_round_of_fedavg_planned_for_an_accelerator_is_a_cpus(platform: str) -> None:
    """Both run on this CPU; the largest weights are near 1, whose last bit is 6e-8."""
    config = small(model="small_cnn", **FEDAVG)
    trainer = small_trainer(config, target=named_target(platform))
    assert trainer.program.plan.recipe.full_batches
    ours, shipped = (first_round(t)[0] for t in (trainer, small_trainer(config)))
    chex.assert_trees_all_close(ours, shipped, rtol=0, atol=1.2e-7)


@pytest.mark.hole
def test_a_step_apart_and_a_select_left_out_change_no_bit() -> None:
    program = small_trainer(small(**FEDAVG), target=named_target("cuda")).program
    # No longer the object that a GPU computes in another way.
    model = program.model._replace(loss=lambda *told: cross_entropy(*told))
    program = dataclasses.replace(program, model=model)
    recipe = program.plan.recipe
    assert recipe.fewer_kernels and recipe.full_batches
    recipe = recipe._replace(fewer_kernels=False, full_batches=False)
    plain = dataclasses.replace(
        program, plan=dataclasses.replace(program.plan, recipe=recipe)
    )
    chex.assert_trees_all_equal(
        *(first_round(shared_trainer(p))[0] for p in (program, plain))
    )


@pytest.mark.parametrize("changes", [{}, {"client_chunk_size": 1}])
def test_a_tpu_knows_the_steps_of_clients_who_are_alike(
    changes: dict[str, Any],
) -> None:
    """Also of one that trains alone; a CPU never does."""
    tpu = named_target("tpu")
    recipe = small_trainer(small(**FEDAVG | changes), target=tpu).program.plan.recipe
    assert recipe.full_batches and recipe.most_steps
    cpu = small_trainer(small(**FEDAVG | changes)).program.plan.recipe
    assert not cpu.full_batches and cpu.most_steps is None


@pytest.mark.hole
@pytest.mark.parametrize(
    "changes",
    [
        {"partition": "dirichlet"},
        {
            "mechanism": "gaussian",
            "clipping": "attribute_records",
            "epsilon": 20.0,
            "num_hbc_clients": 0,
        },
    ],
)
def test_lanes_idle_where_clients_take_unequal_steps(changes: dict[str, Any]) -> None:
    """By their examples, or by how many of these are public."""
    config = small(**FEDAVG | {"l2_norm_clip": 1.0, "num_attributes": 3} | changes)
    recipe = small_trainer(config, target=named_target("cuda")).program.plan.recipe
    assert recipe.most_steps and not recipe.full_batches


@pytest.mark.hole
def test_a_gpus_options_give_way_to_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    options = named_target("cuda").compiler_options
    assert options and "WHILE" in str(options["xla_gpu_enable_command_buffer"])
    assert named_target("cpu").compiler_options is None
    assert named_target("tpu").compiler_options is None
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_command_buffer=")
    kept = named_target("cuda").compiler_options
    assert kept == {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}


def test_flags_that_docs_name_for_equal_bytes_are_the_compilers() -> None:
    """XLA ends a process that names another one."""
    text = (ROOT / "docs" / "performance.md").read_text()
    (flags,) = re.findall('XLA_FLAGS="(.*)"', text)
    script = "import jax; print(jax.jit(lambda x: 2 * x)(3))"
    for more, ends_well in ("", True), (" --xla_gpu_autotune_levels=0", False):
        process = start(script, how="-c", XLA_FLAGS=flags + more)
        process.communicate(timeout=600)
        assert (process.returncode == 0) == ends_well


def test_what_a_host_fetches_at_once_are_the_metrics_bits() -> None:
    """By two devices too, in one round and in several, which are a loop."""
    target, config = named_target("cuda"), small(**FEDAVG | {"num_rounds": 2})
    for rounds, devices in ((1, 1), (2, 1), (2, 2)):
        placement = Placement(num_devices=devices, rounds_per_call=rounds)
        trainer = small_trainer(config, placement=placement, target=target)
        assert len(jax.tree.leaves(trainer.lower().out_info[1])) == 3
        plan = dataclasses.replace(trainer.program.plan, known_trips=False)
        plain = shared_trainer(
            dataclasses.replace(trainer.program, plan=plan), placement=placement
        )
        joined, apart = (
            t.advance(t.initial_state(), 0, rounds)[1] for t in (trainer, plain)
        )
        chex.assert_trees_all_equal_shapes_and_dtypes(joined, apart)
        chex.assert_trees_all_close(joined, apart, rtol=1e-6)
        assert np.array_equal(joined.clients.client_id, apart.clients.client_id)
        kinds = {leaf.dtype.name for leaf in jax.tree.leaves(joined)}
        assert kinds == {"bool", "float32", "int32"}


@pytest.mark.parametrize(("platform", "at_once"), [("cpu", 0), ("tpu", 1)])
def test_epochs_are_shuffled_at_once_on_an_accelerator(
    platform: str, at_once: bool
) -> None:
    """A TPU's round of W2 has 12 kernels less. A sort has both epochs of all lanes."""
    trainer = small_trainer(small(**FEDAVG), target=named_target(platform))
    rounds = jax.make_jaxpr(trainer._compiled)(*trainer.arguments())
    assert at_once == bool(re.search(r"u32\[\d+,2,\d+\][^\n]* = sort", str(rounds)))


@pytest.mark.parametrize(("platform", "fewer"), [("cpu", 0), ("cuda", 1), ("tpu", 0)])
def test_a_tpu_has_no_stages_in_the_sum_of_an_upload(
    platform: str, fewer: bool
) -> None:
    """They cost W1's round 132 thousand cycles; a GPU reads the upload once less."""
    program = small_trainer(small(**FEDAVG), target=named_target(platform)).program
    assert program.plan.recipe.fewer_kernels == fewer


ACCELERATORS = (("cuda", None), ("tpu", None), ("cpu", 2))


@pytest.mark.parametrize(
    ("model", "estimator", "targets"),
    [
        ("mlp", "exact", ACCELERATORS[:1]),
        *(
            pytest.param("small_cnn", name, ACCELERATORS, marks=pytest.mark.slow)
            for name in ("exact", "additive", "gp")
        ),
    ],
)
def test_the_round_of_every_target_is_that_of_a_cpu(
    model: str, estimator: str, targets: tuple[tuple[str, int | None], ...]
) -> None:
    """Plain kernels, stacked coalitions of unequal size, every lane in one axis.

    All run on this CPU. Clients hold up to two of three attributes, so there is one
    that changes no coalition: its value is 0 to the bit.
    """
    asked = {"model": model, "shapley": estimator, "shapley_trainings": 2}
    asked |= {"num_attributes": 3, "utility": "loss", "local_epochs": 2}
    asked |= {"partition": "dirichlet", "client_chunk_size": None, "num_rounds": 1}
    asked |= {"paired_noise": True}  # the digest holds the chunk sizes
    params, metrics = first_round(small_trainer(small(**asked)))
    assert metrics.clients.estimation is not None
    for platform, chunk in targets:
        config = small(**asked, coalition_chunk_size=chunk)
        trainer = small_trainer(config, target=named_target(platform))
        assert trainer.program.plan.estimation.num_parallel > 1
        other, found = first_round(trainer)
        assert found.clients.estimation is not None
        values = found.clients.estimation.shapley_values
        # Differences of utilities of up to 3 nats, each right to a few of 1e-4.
        np.testing.assert_allclose(
            values, metrics.clients.estimation.shapley_values, rtol=1e-3, atol=1e-3
        )
        zero = metrics.clients.estimation.shapley_values == 0
        np.testing.assert_array_equal(values == 0, zero)
        chex.assert_trees_all_close(other, params, rtol=1e-3, atol=1e-4)
