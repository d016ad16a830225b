"""The arithmetic of a round, not its clock: which operations, and how many."""

import itertools
import json
import pathlib
import re
from typing import Any

import pytest

from experiments.benchmark import arithmetic, compiled, measure, workloads
from fedsvp_jax.devices import target


def dense(batch: int, *widths: int) -> int:
    """Forward products of a perceptron."""
    return sum(2 * batch * a * b for a, b in itertools.pairwise(widths))


def conv(batch: int, side: int, kernel: int, channels: int, features: int) -> int:
    """Forward products of a convolution with a (side, side) result."""
    return 2 * batch * side**2 * kernel**2 * channels * features


def cnn_step(
    batch: int, side: int, kernel: int, widths: tuple[int, ...], winograd: bool = False
) -> int:
    """Forward, and twice as much backward less the image's own gradient."""
    first, second, hidden, classes = widths
    of_image = conv(batch, side, kernel, 1, first)
    rest = conv(batch, side // 2, kernel, first, second)
    if winograd:  # 36 products for the 100 of four pixels
        rest = rest * 36 // 100
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
LEAF_ON_CPU = cnn_step(1, 28, 5, (32, 64, 2048, 62), winograd=True)
SMALL = cnn_step(1, 8, 3, (16, 32, 128, 10))
NAMED = {platform: target.named_target(platform) for platform in ("cpu", "cuda", "tpu")}


@pytest.mark.hole
@pytest.mark.parametrize("platform", NAMED)
@pytest.mark.parametrize(("name", "expected"), [("W1", LEAF), ("W2", SMALL), ("W3", 0)])
def test_products_of_a_round_are_those_of_the_models_layers(
    name: str, expected: int, platform: str
) -> None:
    """On a GPU each step was counted as often as there are steps."""
    workload = workloads.of_name(name)[0]
    trainer = measure.make_trainer(workload, target=NAMED[platform])
    (step,) = arithmetic.coalition_steps(trainer).values()
    steps = workload.local_epochs * (workload.train // workload.batch_size)
    assert step == (workload.batch_size, steps)
    expected = expected or resnet_step(1, 32, 10, winograd=platform == "cpu")
    if name == "W1" and platform == "cpu":
        expected = LEAF_ON_CPU
    trained = workload.cohort_size * workload.local_epochs * workload.train
    assert arithmetic.round_flops(trainer) == (trained * expected, 0)
    if name == "W1":
        assert round(LEAF / 1e6, 1) == 102.0
        assert round(LEAF_ON_CPU / 1e6, 1) == 63.5


RESULTS = pathlib.Path(__file__).parents[3] / "docs" / "results"
RESNET = resnet_step(1, 32, 10, winograd=False)
# Of a round of FedAvg, by hand: K clients' examples, epochs and products.
BY_HAND = {
    "W1": 10 * 200 * 2 * LEAF,
    "W2": 10 * 14 * 2 * SMALL,
    "W3": 10 * 50 * 1 * RESNET,
    "PE-W1": 3 * 200 * 2 * LEAF,
    "PE-W2": 10 * 14 * 2 * SMALL,
}


def result_rows(name: str) -> list[dict[str, Any]]:
    lines = (RESULTS / f"{name}.jsonl").read_text().splitlines()
    return list(map(json.loads, lines))


def table(name: str) -> list[dict[str, str]]:
    """The table of a page's section, row by row."""
    page = (RESULTS / "performance.md").read_text()
    section = page.split(f"{{#{name}}}")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    head, _, *rows = ([cell.strip() for cell in x[1:-1].split("|")] for x in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.mark.hole
@pytest.mark.parametrize("name", ["bench_gpu", "bench"])
def test_kept_shares_are_those_of_the_kept_seconds(name: str) -> None:
    """W1's on a GPU was eight times what it is.

    A row of PE has FedAvg's products times the ratio in its note.
    """
    share_of = "share of the matrix-product rate"
    for row, printed in zip(result_rows(name), table(name), strict=True):
        assert row["work"] == printed["workload"]
        assert f"{row['gemm_fraction']:.2g}" == f"{float(printed[share_of]):.2g}"
        if row["work"] == workloads.SWEEP:
            continue  # counted for the largest client
        ratio = re.search(r"counted: ([\d.]+) times", row["note"])
        work = re.sub("-(DP|BF16)$", "", row["work"])
        flops = BY_HAND[work] * (float(ratio[1]) if ratio else 1)
        if name == "bench" and row["work"] == "W3":
            flops = 500 * resnet_step(1, 32, 10, winograd=True)
        share = flops / row["seconds_per_round_median"] / 1e9 / row["gemm_gflops"]
        assert row["gemm_fraction"] == pytest.approx(share, rel=1e-3)


def test_the_page_of_a_gpu_has_the_medians_of_the_rows() -> None:
    """In ms, beside the best of PyTorch's in the same call; quotients of two rows."""
    page = (RESULTS.parent / "performance.md").read_text()
    cells = {
        cell[1].strip(): [
            float(text.split()[0].strip(",").replace(",", ""))
            for text in cell[2:4]
            if text.strip()
        ]
        for cell in (line.split("|") for line in page.splitlines())
        if len(cell) > 4 and cell[1].strip() and cell[2].strip()[:1] in {*".0123456789"}
    }
    rows = {(r["work"], r["num_attributes"]): r for r in result_rows("bench_gpu")}
    median = "seconds_per_round_median"
    peers = [r for r in result_rows("peers_gpu") if r["call"] == 3 and "seconds" in r]
    for work in ("W1", "W1-DP", "W2", "W3"):
        ours, theirs = cells[work]
        assert ours == pytest.approx(1e3 * rows[work, 1][median], rel=1e-2)
        best = min(r["seconds"] for r in peers if r["work"] == work)
        assert theirs == pytest.approx(1e3 * best, rel=5e-3)
    sweep, estimated = rows["SWEEP", 2], rows["PE-W1", 5][median]
    assert cells["SWEEP, 25 cells ÷ one"][0] == pytest.approx(
        25 * sweep["sweep_over_singles"], rel=2e-2
    )
    quotient = estimated / rows["PE-W1", 1][median]
    assert cells["PE-W1, exact N = 5 ÷ FedAvg"][0] == pytest.approx(quotient, rel=1e-2)
    compiled = rows["W1", 1]["compile_seconds"]
    assert cells["W1's compilation, s"][0] == pytest.approx(compiled, rel=1e-2)
    (resnet,) = (r for r in result_rows("trials_gpu") if "ms" in r and r["ms"] > 1e3)
    assert cells["ResNet-18, 10 clients × 2,000 images, E = 2"][0] == round(
        resnet["ms"]
    )


def test_the_table_of_an_h200_has_the_medians_of_its_rows() -> None:
    text = (RESULTS.parent / "performance.md").read_text()
    lines = text.split("bench_h200")[1].splitlines()
    for start, rounds in (("| 5", 5), ("| 20", 20)):
        (line,) = (line for line in lines if line.startswith(start))
        for work, printed in zip(
            ("W1", "W3", "PE-W1"), line.split("|")[2:], strict=False
        ):
            rows = [
                row["ms"]
                for row in result_rows("trials_gpu")
                if row["call"] > 4 and row["work"] == work and not row["changed"]
                if row["rounds_per_call"] == rounds and not row["process"]
            ]
            assert [f"{ms:.3g}" for ms in rows] == printed.split()


# By hand: weights and biases of the layers, and of GroupNorm.
NUM_WEIGHTS = {"W1": 6_603_710, "W2": 22_602, "W3": 11_173_962}


def test_kept_limits_are_flops_or_bytes_by_hand() -> None:
    """The longer of the products and of two copies of each client's weights."""
    for row, printed in zip(
        result_rows("accelerators"), table("accelerators"), strict=True
    ):
        assert (row["device"], row["work"]) == (printed["device"], printed["workload"])
        device = compiled.DEVICES[row["device"]]
        same = {"SWEEP": "W2", "PE-W2": "W2", "W1-DP": "W1"}
        work = same.get(row["work"], row["work"])
        cells = 25 if row["work"] == "SWEEP" else 1
        moved = cells * 2 * 10 * 4 * NUM_WEIGHTS[work] / device.bandwidth
        if row["num_attributes"] == 1:
            products = cells * BY_HAND[work] / device.flops
            limit = max(products, moved)
            assert row["limit_seconds"] == pytest.approx(limit, rel=1e-6)
        assert row["limit_seconds"] >= moved
        if row["limit_share"] is not None:
            share = row["limit_seconds"] * device.clock / row["round_cycles"]
            assert row["limit_share"] == pytest.approx(share, rel=1e-4)
            assert f"{share:.2g}" == f"{float(printed['limit ÷ round']):.2g}"


@pytest.mark.hole
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("index", "ratios"), [(1, (2.22, 2.22)), (4, (15.8, 18.3)), (5, (2.44, 2.51))]
)
def test_privacy_estimation_costs_what_its_examples_do(
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
    training, estimation = arithmetic.round_flops(trainer)
    total = training + estimation
    assert total == workload.cohort_size * (examples * SMALL + validated * scored)
    counted = total / training
    assert counted == pytest.approx(ratios[platform == "cuda"], abs=0.02)


def arithmetic_bound(num_attributes: int, shapley: str) -> int:
    """Of FedSVA's training relative to FedAvg's: 2^(N-1), additive: 2.

    The examples of an attribute are in 2^(N-1) coalitions, one of which is the local
    model's; two of these are trained by `additive` without a correction. Every
    coalition trains as many epochs as the local model does.
    """
    coalitions = 2 ** (num_attributes - 1)
    return coalitions if shapley == "exact" else min(coalitions, 2)


@pytest.mark.parametrize(
    "workload", [*workloads.of_name("PE-W1"), *workloads.of_name("PE-W2")]
)
def test_coalitions_of_a_work_cost_no_more_than_the_bound(
    workload: workloads.Workload,
) -> None:
    trainer = measure.make_trainer(workload)
    steps = arithmetic.coalition_steps(trainer)
    sizes = trainer.program.data.counts.coalition_sizes
    assert all(
        count == workload.local_epochs * max(1, sizes[mask] // batch)
        for mask, (batch, count) in steps.items()
    )
    trained = sum(batch * count for batch, count in steps.values())
    bound = arithmetic_bound(workload.num_attributes, workload.shapley)
    assert trained <= bound * workload.local_epochs * workload.train
