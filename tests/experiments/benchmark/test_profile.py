"""`experiments.benchmark.profile`: every part of a round has its time and its layer."""

import pathlib

import pytest

from experiments.benchmark import measure, profile, workloads

TINY = workloads.Task(
    "small_cnn", 8, 1, 3, 4, train=12, validation=4, batch=3, epochs=2
)


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("jit(f)/while/body/jvp(CNN)/Dense_0/dot_general", ("Dense_0", "forward")),
        ("while/body/transpose(jvp(CNN))/Dense_1/reduce", ("Dense_1", "backward")),
        ("while/body/jvp(jit(relu))/max", None),
        ("while/body/add", None),
    ],
)
def test_a_name_tells_the_layer_and_the_direction(
    name: str, scope: tuple[str, str] | None
) -> None:
    assert profile.scope_of(name) == scope


def test_every_product_of_a_step_belongs_to_a_layer() -> None:
    trainer = measure.make_trainer(workloads.Workload("tiny", TINY, cohort_size=4))
    by_layer = profile.flops_by_scope(trainer, 3)
    layers = {layer for layer, _ in by_layer}
    assert layers == {"ConvReluPool_0", "ConvReluPool_1", "Dense_0", "Dense_1"}
    for layer in layers - {"ConvReluPool_0"}:
        assert by_layer[layer, "backward"] == 2 * by_layer[layer, "forward"]
    first = "ConvReluPool_0"  # nobody needs the image's gradient
    assert by_layer[first, "backward"] == by_layer[first, "forward"]


@pytest.mark.slow
def test_most_of_a_rounds_time_is_attributed_and_drawn(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "gemm_gflops", lambda size: 1.0)
    found = profile.profile(workloads.Workload("tiny", TINY, cohort_size=4))
    assert 0.2 < found["attributed_seconds"] / found["round_seconds"] < 2.5
    directions = {part["direction"] for part in found["parts"]}
    assert directions == {"forward", "backward", "step", "round"}
    assert all(p["gflops"] > 0 for p in found["parts"] if "gflops" in p)
    profile.draw(found, tmp_path / "picture.svg")
    assert "ConvReluPool_0" in (tmp_path / "picture.svg").read_text()
