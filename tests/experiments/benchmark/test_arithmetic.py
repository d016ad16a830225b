"""The arithmetic of a round, not its clock: which operations, and how many."""

import itertools
import json
import pathlib

import pytest

from experiments.benchmark import arithmetic, measure, workloads
from fedsvp_jax.devices import target


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


def resnet_step(batch: int, side: int, classes: int, winograd: bool) -> int:
    stem = conv(batch, side, 3, 3, 64)
    rest, channels = dense(batch, 512, classes), 64
    for features in (64, 128, 256, 512):
        alike = 4  # convolutions with stride 1
        if features > channels:
            side, alike = side // 2, 3
            rest += conv(batch, side, 1, channels, features)
            rest += conv(batch, side, 3, channels, features)
        dense_products = alike * conv(batch, side, 3, features, features)
        rest += dense_products * 16 // 36 if winograd else dense_products
        channels = features
    return 2 * stem + 3 * rest


# Of one example, forward and backward, by hand.
LEAF = cnn_step(1, 28, 5, (32, 64, 2048, 62))
SMALL = cnn_step(1, 8, 3, (16, 32, 128, 10))
NAMED = {platform: target.named_target(platform) for platform in ("cpu", "cuda", "tpu")}


@pytest.mark.hole
@pytest.mark.parametrize("platform", NAMED)
@pytest.mark.parametrize(("name", "expected"), [("W1", LEAF), ("W2", SMALL), ("W3", 0)])
def test_a12_products_of_a_round_are_those_of_the_models_layers(
    name: str, expected: int, platform: str
) -> None:
    """On a GPU each step was counted as often as there are steps."""
    workload = workloads.of_name(name)[0]
    task = workload.task
    trainer = measure.make_trainer(workload, target=NAMED[platform])
    (step,) = arithmetic.coalition_steps(trainer).values()
    assert step == (task.batch, task.epochs * (task.train // task.batch))
    expected = expected or resnet_step(1, 32, 10, winograd=platform == "cpu")
    trained = workload.cohort_size * task.epochs * task.train
    assert arithmetic.round_flops(trainer) == (trained * expected, 0)
    if name == "W1":
        assert round(LEAF / 1e6, 1) == 102.0


@pytest.mark.hole
def test_a12_kept_shares_are_those_of_the_kept_seconds() -> None:
    """W1's was eight times what it is."""
    file = pathlib.Path(__file__).parents[3] / "docs" / "results" / "bench_gpu.jsonl"
    lines = file.read_text().splitlines()
    rows = {row["work"]: row for row in map(json.loads, lines)}
    by_hand = {
        "W1": 4000 * LEAF,
        "W2": 280 * SMALL,
        "W3": 500 * resnet_step(1, 32, 10, winograd=False),
    }
    for name, flops in by_hand.items():
        row = rows[name]
        share = flops / row["seconds_per_round_median"] / 1e9 / row["gemm_gflops"]
        assert row["gemm_fraction"] == pytest.approx(share)


@pytest.mark.hole
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("index", "ratios"), [(1, (2.22, 2.22)), (4, (15.8, 18.3)), (5, (2.44, 2.51))]
)
def test_a12_privacy_estimation_costs_what_its_examples_do(
    index: int, ratios: tuple[float, float], platform: str
) -> None:
    """Of N = 5 on a GPU 16.6 times FedAvg's arithmetic was printed, which is 18.3."""
    workload = workloads.of_name("PE-W2")[index]
    trainer = measure.make_trainer(workload, target=NAMED[platform])
    steps = arithmetic.coalition_steps(trainer).values()
    examples = sum(batch * count for batch, count in steps)
    images = trainer.program.data.split.validation.shape[-1]
    batch = trainer.program.plan.estimation.validation_batch_size
    validated = len(steps) * -(-images // batch) * batch
    scored = conv(1, 8, 3, 1, 16) + conv(1, 4, 3, 16, 32) + dense(1, 128, 128, 10)
    flops = arithmetic.round_flops(trainer)
    assert flops.total == workload.cohort_size * (examples * SMALL + validated * scored)
    counted = flops.total / flops.training
    assert counted == pytest.approx(ratios[platform == "cuda"], abs=0.02)


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
