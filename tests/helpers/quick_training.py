"""A round without its training, which is most of what there is to compile."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from fedsvp_jax.core.structs import Rows, Weights
from fedsvp_jax.round import local_training
from fedsvp_jax.round.local_training import Draws


@pytest.fixture
def quick_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of local training: a formula of everything that training is told."""

    def stand_in(
        model: Any,
        recipe: Any,
        rates: Any,
        start: Weights,
        rows: Rows,
        draws: Draws,
        *,
        lane_axes: tuple[str, ...] = (),
        drift: Any = None,
    ) -> Any:
        for axis in lane_axes:  # fails outside the vmap that is named
            jax.lax.axis_index(axis)
        examples, indices, member = rows
        held = jnp.sum(jnp.where(member, examples.labels[indices] + 1, 0))
        scale = 0.01 * recipe.batch_size * rates.learning_rate
        told = held.astype(jnp.float32) * scale
        told = told + jax.random.uniform(draws.key) + rates.step_noise_std
        told = told + 0.01 * len(recipe.gradient) + (recipe.places or 0)
        told = jnp.where(jnp.any(member), told, 0.0)
        moved = jax.tree.map(lambda leaf: leaf + told * (0.1 + leaf), start.params)
        if drift is not None:
            moved = jax.tree.map(jnp.subtract, moved, drift)
        return Weights(moved, jax.tree.map(lambda leaf: leaf + told, start.stats))

    monkeypatch.setattr(local_training, "local_update", stand_in)
