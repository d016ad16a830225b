"""Accuracy and loss: a plain mean over the examples, whatever the batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from fedsvp_jax.algorithm import evaluation
from fedsvp_jax.algorithm.evaluation import Score
from fedsvp_jax.devices import lanes
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.structs import Array, Examples, Model, Params

NUM_EXAMPLES = 23
WEIGHTS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)


def linear_model() -> Model:
    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> tuple[Array, Params]:
        assert not train and key is None
        return x @ params, stats

    return Model(init=lambda key, example: (jnp.asarray(WEIGHTS), {}), apply=apply)


def examples() -> Examples:
    rng = np.random.default_rng(0)
    return Examples(
        inputs=jnp.asarray(rng.normal(size=(NUM_EXAMPLES, 4)).astype(np.float32)),
        labels=jnp.asarray(rng.integers(0, 3, NUM_EXAMPLES).astype(np.int32)),
        attributes=jnp.arange(NUM_EXAMPLES, dtype=jnp.int32) % 2,
    )


def by_hand() -> tuple[np.ndarray, np.ndarray]:
    """Per example: right or not, and -log of the softmax at the label."""
    held = examples()
    logits = np.asarray(held.inputs, np.float64) @ WEIGHTS.astype(np.float64)
    labels = np.asarray(held.labels)
    chosen = logits[np.arange(NUM_EXAMPLES), labels]
    return logits.argmax(1) == labels, np.log(np.exp(logits).sum(1)) - chosen


def score(batch_size: int, num_devices: int = 1, num_attributes: int = 1) -> Score:
    def on_device(index: Array) -> Score:
        return evaluation.evaluate(
            linear_model(),
            jnp.asarray(WEIGHTS),
            {},
            examples(),
            batch_size=batch_size,
            devices=lanes.Devices(num_devices, index[0]),
            num_attributes=num_attributes,
        )

    run = jax.shard_map(
        on_device,
        mesh=Placement(num_devices=num_devices).mesh(),
        in_specs=PartitionSpec(lanes.CLIENT_AXIS),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    return jax.device_get(jax.jit(run)(jnp.arange(num_devices, dtype=jnp.int32)))


@pytest.mark.parametrize("batch_size", [1, 5, 23, 40])
def test_accuracy_and_loss_are_plain_means_at_any_batch_size(batch_size: int) -> None:
    right, losses = by_hand()
    found = score(batch_size)
    np.testing.assert_allclose(found.accuracy, right.mean(), rtol=1e-6)
    np.testing.assert_allclose(found.loss, losses.mean(), rtol=1e-5)


@pytest.mark.parametrize("num_devices", [2, 3, 4])
@pytest.mark.bits
def test_the_score_has_the_same_bits_on_any_number_of_devices(num_devices: int) -> None:
    for found, wanted in zip(score(5, num_devices), score(5), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_accuracy_by_class_is_the_mean_over_the_classs_examples() -> None:
    right, _ = by_hand()
    labels = np.asarray(examples().labels)
    by_class = [right[labels == c].mean() for c in range(3)]
    np.testing.assert_allclose(score(5).group_accuracy, by_class, rtol=1e-6)
    attributes = np.asarray(examples().attributes)
    by_both = [
        right[(labels == c) & (attributes == a)].mean()
        for c in range(3)
        for a in (0, 1)
    ]
    found = score(5, num_attributes=2)
    np.testing.assert_allclose(found.group_accuracy, by_both, rtol=1e-6)


@pytest.mark.parametrize(("count", "batch_size"), [(17, 1), (17, 5), (3, 23), (0, 5)])
def test_what_a_model_is_worth_on_validation_examples(
    count: int, batch_size: int
) -> None:
    """Accuracy, or the nats by which the loss is below ln 3; 0 without examples."""
    right, losses = by_hand()
    order = np.random.default_rng(2).permutation(NUM_EXAMPLES).astype(np.int32)
    for kind, per_example in (("accuracy", right), ("loss", np.log(3) - losses)):
        held = evaluation.Validation(
            linear_model(),
            examples(),
            jnp.asarray(order),
            jnp.int32(count),
            batch_size=batch_size,
            lane_axes=(),
            kind=kind,
        )
        expected = per_example[order[:count]].sum() / max(count, 1)
        params = jnp.asarray(WEIGHTS)
        np.testing.assert_allclose(held.utility(params, {}), expected, rtol=1e-5)
        logits = held.logits(params, {})
        assert logits.shape == held.logits_shape(params, {})
        np.testing.assert_allclose(held.utility_of(logits), expected, rtol=1e-5)
        assert float(held.resolution) == pytest.approx(
            1 / max(count, 1) if kind == "accuracy" else 0
        )
