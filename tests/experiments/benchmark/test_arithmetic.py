"""The arithmetic of a round, not its clock: which operations, and how many."""

import itertools
from functools import partial

import jax.numpy as jnp
import pytest

from experiments.benchmark import arithmetic, measure, workloads
from fedsvp_jax.models.kernels import conv2d


def dense(batch: int, *widths: int) -> int:
    """Forward products of a perceptron."""
    return sum(2 * batch * a * b for a, b in itertools.pairwise(widths))


def conv(batch: int, side: int, kernel: int, channels: int, features: int) -> int:
    """Forward products of a convolution with a (side, side) result."""
    return 2 * batch * side**2 * kernel**2 * channels * features


def cnn_step(batch: int, side: int, kernel: int, widths: tuple[int, ...]) -> int:
    """Forward, and twice as much backward less the image's own gradient."""
    first, second, hidden, classes = widths
    of_image = conv(batch, side, kernel, 1, first)
    rest = conv(batch, side // 2, kernel, first, second)
    rest += dense(batch, (side // 4) ** 2 * second, hidden, classes)
    return 2 * of_image + 3 * rest


def resnet_step(batch: int, side: int, classes: int) -> int:
    stem = conv(batch, side, 3, 3, 64)
    rest, channels = dense(batch, 512, classes), 64
    for features in (64, 128, 256, 512):
        alike = 4  # convolutions with stride 1: Winograd's, 16 products for 36
        if features > channels:
            side, alike = side // 2, 3
            rest += conv(batch, side, 1, channels, features)
            rest += conv(batch, side, 3, channels, features)
        rest += alike * conv(batch, side, 3, features, features) * 16 // 36
        channels = features
    return 2 * stem + 3 * rest


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("W1", cnn_step(50, 28, 5, (32, 64, 2048, 62))),
        ("W2", cnn_step(7, 8, 3, (16, 32, 128, 10))),
        ("W3", resnet_step(50, 32, 10)),
    ],
)
def test_products_of_a_training_step_are_those_of_the_models_layers(
    name: str, expected: int
) -> None:
    workload = workloads.of_name(name)[0]
    task = workload.task
    trainer = measure.make_trainer(workload)
    (step,) = arithmetic.coalition_steps(trainer).values()
    assert step == (task.batch, task.epochs * (task.train // task.batch))
    flops = arithmetic.round_flops(trainer, task.classes)
    assert flops == (workload.cohort_size * step[1] * expected, 0)


def test_a_convolution_cannot_be_counted_by_mistake() -> None:
    image, kernel = jnp.ones((2, 8, 8, 3)), jnp.ones((3, 3, 3, 3))
    with pytest.raises(ValueError, match="holds a convolution"):
        arithmetic.matmul_flops(partial(conv2d, kernel=kernel, kernels="tpu"), image)


@pytest.mark.parametrize(
    "workload", [*workloads.of_name("PE-W1"), *workloads.of_name("PE-W2")]
)
def test_coalitions_of_a_work_cost_no_more_than_the_bound(
    workload: workloads.Workload,
) -> None:
    trainer = measure.make_trainer(workload)
    steps = arithmetic.coalition_steps(trainer)
    sizes = trainer.program.data.game.coalition_sizes
    assert all(
        count == workload.task.epochs * max(1, sizes[mask] // batch)
        for mask, (batch, count) in steps.items()
    )
    trained = sum(batch * count for batch, count in steps.values())
    bound = measure.arithmetic_bound(workload.num_attributes, workload.shapley)
    assert trained <= bound * workload.task.epochs * workload.task.train
