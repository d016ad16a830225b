"""What a target decides, and that it decides nothing but the last bits."""

from typing import Any

import chex
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import small, small_trainer

from fedsvp_jax import models
from fedsvp_jax.devices.target import named_target
from fedsvp_jax.federation.plan import choose_parallelism
from fedsvp_jax.round.state import RoundMetrics
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


@pytest.mark.parametrize(("platform", "clients"), [("cuda", 3), ("tpu", 1), ("cpu", 1)])
def test_a_network_with_batch_statistics_has_a_plan(
    platform: str, clients: int
) -> None:
    target = named_target(platform)
    model = models.make_model("resnet18", num_classes=10, kernels=target.platform)
    config = small(model="resnet18", client_chunk_size=None)
    assert choose_parallelism(config, target, model, (32, 32, 3)).clients == clients


def first_round(trainer: Trainer) -> tuple[Any, RoundMetrics]:
    state, metrics = trainer.advance(trainer.initial_state(), 0, 1)
    return jax.device_get(state.params), metrics


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
        # The coalitions have another order: by the number of their steps.
        steps = (np.sort(m.clients.steps, axis=-1) for m in (found, metrics))
        np.testing.assert_array_equal(*steps)
