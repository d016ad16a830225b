"""One round on the real files of the folder that FEDSVP_DATA names."""

import os
import pathlib
from typing import Any

import pytest
from small_runs import read_rows

from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig, resolve

FOLDER = os.environ.get("FEDSVP_DATA")
pytestmark = [
    pytest.mark.across("runs on the files of FEDSVP_DATA"),
    pytest.mark.skipif(
        not FOLDER, reason="FEDSVP_DATA does not name a folder of real data"
    ),
]

SETTINGS: dict[str, dict[str, Any]] = {
    "femnist": {"model": "mlp", "partition": "by_writer", "num_clients": 8},
    "cifar10": {"model": "mlp", "partition": "iid", "num_clients": 500},
    "adult": {
        "attributes": "column:sex",
        "num_clients": 200,
        "partition": "iid",
        "l2_norm_clip": 1.0,
    },
}


@pytest.mark.parametrize(
    "name",
    [
        "adult",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("femnist", "cifar10")),
    ],
)
def test_a_round_of_fedsva_runs_on_the_real_files(
    name: str, tmp_path: pathlib.Path
) -> None:
    config = ExperimentConfig(
        dataset=name,
        data_dir=FOLDER,
        num_rounds=1,
        cohort_size=2,
        num_hbc_clients=1,
        local_epochs=1,
        batch_size=20,
        eval_batch_size=500,
        max_test_examples=500,
        client_chunk_size=1,
        **SETTINGS[name],
    )
    summary = run.train(resolve(config), tmp_path / "run")
    assert summary["rounds"] == 1 and 0 < summary["best_accuracy"] < 1
    rows = read_rows(tmp_path / "run" / "clients.jsonl")
    assert len(rows) == 2
    for row in rows:
        assert sum(row["shapley_values"]) == pytest.approx(
            row["utilities"][-1], abs=1e-5
        )
        assert row["noise_std"] > 0 and row["num_examples"] >= 20
    if name == "adult":
        assert summary["attributes"] == ("Female", "Male")
