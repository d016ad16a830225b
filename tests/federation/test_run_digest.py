"""Runs of one seed share no draw that hides something, unless they ask for it."""

import dataclasses
from typing import Any

import chex
import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from published import epsilon_of
from small_runs import digits, shared_trainer, small

from fedsvp_jax.core import prng
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import Program, build
from fedsvp_jax.federation.run_digest import run_digest

BASE: dict[str, Any] = {
    "mechanism": "gaussian",
    "epsilon": 500.0,
    "delta": 0.1,
    "clipping": "update_clip",
    "num_rounds": 1,
}


def program(dataset: Dataset | None = None, **changes: Any) -> Program:
    return build([small(**BASE | changes)], dataset or digits())


def after_a_round(**changes: Any) -> np.ndarray:
    made = program(**changes)
    trainer = shared_trainer(made)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    return np.asarray(ravel_pytree(state.params)[0])


def without_noise(**paired: Any) -> tuple[float, float]:
    """How far 2·m(z) − m(2z) and m(z) are from the model without noise."""
    levels = [epsilon_of(z, 0.1) for z in (0.025, 0.05)]
    silent, little, more = (
        after_a_round(epsilon=epsilon, **paired) for epsilon in (1e20, *levels)
    )
    return np.abs(2 * little - more - silent).max(), np.abs(little - silent).max()


@pytest.mark.hole
def test_the_noise_of_two_runs_does_not_cancel() -> None:
    apart, noise = without_noise()
    assert apart > noise


def test_paired_noise_cancels_and_no_claim_of_it_is_proved() -> None:
    apart, noise = without_noise(paired_noise=True)
    assert apart < 1e-6 < noise
    claim = program(paired_noise=True).mechanism.basis
    assert program().mechanism.basis.proved and not claim.proved
    assert "of two published ones the noise cancels" in claim.assumptions


def digest(dataset: Dataset | None = None, **changes: Any) -> Any:
    made = program(dataset, **changes)
    assert len(made.configs) == 1
    found = run_digest(made.configs[0], made.mechanism, made.data.fingerprint)
    keys = cell_of(made.cells.root, 0), prng.run_keys(made.configs[0].seed, found)
    chex.assert_trees_all_equal(*jax.tree.map(jax.random.key_data, keys))
    return found


@pytest.mark.hole
def test_what_may_change_a_release_changes_the_digest() -> None:
    data = digits()
    shorter = dataclasses.replace(
        data,
        train_inputs=data.train_inputs[:-1],
        train_labels=data.train_labels[:-1],
    )
    found = [
        digest(),
        digest(dataset=shorter),
        digest(epsilon=100.0),
        digest(learning_rate=0.2),
        digest(l2_norm_clip=0.5),
        digest(local_epochs=2),
        digest(cohort_size=2),
        digest(partition="iid"),
        digest(mechanism="fedsva", epsilon=0.5),
        digest(mechanism="fedsva", epsilon=0.4),
        digest(clipping="per_example"),
        digest(max_uploads=1),
    ]
    assert len(set(found)) == len(found)


def test_what_changes_no_release_keeps_the_digest() -> None:
    unchanged = [
        {"seed": 9},  # which is in the key already
        {"eval_every": 3, "eval_batch_size": 7},
        {"validation_examples": 20},
        {"client_chunk_size": 2},
        {"features_dir": "elsewhere"},
        {"num_rounds": 4},
        {"calibration": "analytic"},  # which gaussian does not read
    ]
    assert {digest(**changes) for changes in unchanged} == {digest()}


@pytest.mark.hole
@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": "dpa", "epsilon": 0.5},
        {"mechanism": "time_varying", "epsilon": 0.5},
        {"mechanism": "nbafl", "epsilon": 0.5, "downlink_noise": True},
        {"learning_rate_schedule": "cosine"},
        {"max_uploads": 1},
    ],
    ids=str,
)
def test_runs_of_other_lengths_share_noise_only_where_nothing_follows_the_length(
    changes: dict[str, Any],
) -> None:
    assert digest(num_rounds=3, **changes) != digest(num_rounds=4, **changes)


def test_the_stream_decides_which_of_the_two_keys_is_meant() -> None:
    keys = prng.run_keys(3, (1, 2))
    paired = prng.run_keys(3, None)
    for stream in prng.Stream:
        pair = prng.stream_key(keys, stream), prng.stream_key(paired, stream)
        shared = np.array_equal(*map(jax.random.key_data, pair))
        assert shared == (stream not in prng.HIDING)
