"""Training in two number formats side by side."""

import json
import pathlib

import pytest

from experiments.benchmark import number_formats

TINY = {
    "model": "mlp",
    "num_rounds": 2,
    "num_clients": 4,
    "cohort_size": 2,
    "local_epochs": 1,
    "class_share": 0.05,
    "client_chunk_size": 1,
}


def test_every_format_keeps_the_accuracy_of_every_seed_and_goes_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number_formats, "TASKS", {"digits": TINY})
    monkeypatch.setattr(number_formats, "SEEDS", 2)
    file, sweeps = tmp_path / "formats.json", tmp_path / "runs"
    number_formats.measure("", file, sweeps)
    first = file.read_text()
    rows = json.loads(first)["rows"]
    assert [row["compute_dtype"] for row in rows] == ["float32", "bfloat16"]
    assert all(len(row["accuracies"]) == 2 for row in rows)
    cells = [
        json.loads((tmp_path / f"runs/digits-{name}/cells.json").read_text())
        for name in ("float32", "bfloat16")
    ]
    for one, other in zip(*cells, strict=True):
        assert one["params_sha256"] != other["params_sha256"]
    number_formats.measure("", file, sweeps)
    assert file.read_text() == first
