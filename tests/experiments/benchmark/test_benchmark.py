"""`python -m experiments.benchmark`: its rows, its workloads, its manual."""

import json
from typing import Any

import numpy as np
import pytest
from commands import command, succeeds

from experiments.benchmark import measure, workloads
from fedsvp_jax.federation import federated_data

KEYS = {
    "work",
    "mechanism",
    "num_attributes",
    "shapley",
    "seconds_per_round_median",
    "seconds_per_round_min",
    "seconds_per_round_max",
    "compile_seconds",
    "peak_mb",
    "examples_per_second",
    "gemm_gflops",
    "gemm_fraction",
    "arithmetic_bound",
    "note",
    "versions",
    "xla_flags",
}


def check(row: dict[str, Any]) -> None:
    assert set(row) == KEYS
    assert 0 < row["gemm_fraction"] < 1
    assert (
        0
        < row["seconds_per_round_min"]
        <= row["seconds_per_round_median"]
        <= row["seconds_per_round_max"]
    )


TINY = workloads.Task("mlp", 4, 1, 3, 4, train=12, validation=4, batch=3, epochs=2)


def test_a_row_has_the_promised_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measure._GEMM_SIZE, "cpu", 1024)
    workload = workloads.Workload(
        "PE-TINY",
        TINY,
        "fedsva",
        num_attributes=2,
        cohort_size=2,
        rounds_per_call=2,
        l2_norm_clip=1e3,
    )
    row = measure.measure_workload(workload, 2)
    check(row)
    assert (row["mechanism"], row["num_attributes"]) == ("fedsva", 2)
    assert row["arithmetic_bound"] == 2
    assert row["note"].startswith("samples: 2 of 2 rounds; cohort 2; arithmetic")


@pytest.mark.slow
def test_the_command_prints_one_json_line_per_work() -> None:
    line = ("--works=W2", "--rounds=1", "--device=cpu")
    done = succeeds("experiments.benchmark", *line)
    (line,) = done.stdout.splitlines()
    row = json.loads(line)
    check(row)
    assert (row["work"], row["mechanism"], row["num_attributes"]) == ("W2", "none", 1)
    assert row["arithmetic_bound"] is None


def test_an_unknown_workload_is_one_line_of_error() -> None:
    done = command("experiments.benchmark", "--works=W2,W9")
    assert done.status == 2 and not done.stdout
    names = ", ".join(workloads.NAMES)
    assert done.stderr.splitlines() == [
        f"error: works must be all, or some of {names}, got 'W2,W9'"
    ]


def test_help_explains_every_workload() -> None:
    manual = command("experiments.benchmark", "--help").stdout
    assert all(f"  {name} " in manual for name in workloads.NAMES)


def test_the_bound_counts_each_attribute_in_half_of_all_coalitions() -> None:
    for num_attributes in (1, 2, 3, 4, 5):
        extra = range(1, 2**num_attributes - 1)
        shares = sum(mask.bit_count() / num_attributes for mask in extra)
        bound = measure.arithmetic_bound(num_attributes, "exact")
        assert bound == pytest.approx(1 + shares)
    assert measure.arithmetic_bound(16, "additive") == 2  # the local model, and alone


@pytest.mark.parametrize(
    "workload",
    [workload for name in workloads.NAMES for workload in workloads.of_name(name)],
    ids=lambda workload: (
        f"{workload.name}-{workload.num_attributes}-{workload.shapley}"
    ),
)
def test_every_client_trains_on_exactly_the_tasks_images(
    workload: workloads.Workload,
) -> None:
    task = workload.task
    config = workloads.make_config(workload)
    made = federated_data.federate([config], workloads.make_dataset(workload))
    assert set(np.asarray(made.split.num_train).ravel()) == {task.train}
    assert set(np.asarray(made.split.num_validation).ravel()) == {task.validation}
    ids = np.asarray(made.examples.attributes)
    counts = np.stack(
        [
            np.bincount(ids[rows], minlength=workload.num_attributes)
            for rows in np.asarray(made.split.train)[0]
        ]
    )
    assert np.all(counts == counts[:1])  # every client's coalitions are as large
    assert counts.max() - counts.min() <= 1
