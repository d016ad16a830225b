"""A loop of one's own has the numbers of a run, and seeds run side by side."""

import dataclasses
import pathlib

import chex
import jax
import jax.export
import pytest
from small_runs import digits, small

import fedsvp_jax
from fedsvp_jax import federation, run
from fedsvp_jax.core.tree import cell_of, params_sha256
from fedsvp_jax.devices.target import named_target
from fedsvp_jax.federation import program
from fedsvp_jax.run.trainer import Trainer

ROUNDS = 2
OF_A_NORM = ("sqrt", "reduce", "optimization_barrier")


@pytest.mark.bits
def test_a_loop_of_ones_own_has_the_bits_of_a_run(tmp_path: pathlib.Path) -> None:
    config = small(num_rounds=ROUNDS)
    state, step = fedsvp_jax.make_round(config, digits())
    accuracies = []
    for _ in range(ROUNDS):
        state, metrics = step(state)
        accuracies.append(float(metrics.test_accuracy))
    summary = run.train(config, tmp_path / "run", dataset=digits())
    assert params_sha256(state.server.params) == summary["params_sha256"]
    assert int(state.round_num) == ROUNDS
    assert max(accuracies) == pytest.approx(summary["best_accuracy"])


def test_seeds_are_mapped_and_scanned() -> None:
    config = small(mechanism="nbafl", num_rounds=ROUNDS, partition="iid")
    states, step = fedsvp_jax.make_round(config, digits(), seeds=(3, 4))

    @jax.jit
    def rounds(states):
        return jax.lax.scan(
            lambda state, _: jax.vmap(step)(state), states, length=ROUNDS
        )

    after, metrics = rounds(states)
    assert metrics.test_accuracy.shape == (ROUNDS, 2)
    alone, step = fedsvp_jax.make_round(dataclasses.replace(config, seed=4), digits())
    for _ in range(ROUNDS):
        alone, _ = step(alone)
    mapped, one = cell_of(after.server.params, 1), alone.server.params
    chex.assert_trees_all_close(mapped, one, rtol=1e-4, atol=1e-5)


@pytest.mark.hole
def test_a_loop_of_ones_own_has_the_norms_of_its_target(monkeypatch) -> None:
    """Only a Trainer's rounds had them, so a TPU's loop had others than its run."""
    monkeypatch.setattr(program, "current_target", lambda: named_target("tpu"))
    config = small(num_rounds=1)
    state, step = fedsvp_jax.make_round(config, digits())
    loop = jax.export.export(jax.jit(step), platforms=["tpu"])(state)
    made = federation.build([config], digits())
    plan = dataclasses.replace(made.plan, norms_in_stages=False)

    def stages(exported: jax.export.Exported) -> list[int]:
        text = exported.mlir_module()
        return [text.count(f"stablehlo.{name}") for name in OF_A_NORM]

    in_trees = Trainer(dataclasses.replace(made, plan=plan)).export()
    assert stages(loop) == stages(Trainer(made).export()) != stages(in_trees)
