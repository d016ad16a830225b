"""Training in two number formats side by side."""

import json
import pathlib
import types

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
    monkeypatch.setitem(number_formats.TASKS, "digits", TINY)
    file = tmp_path / "formats.json"
    given = types.SimpleNamespace(
        formats_data_dir=None,
        formats_output_dir=str(tmp_path / "runs"),
        formats_results=str(file),
        formats_seeds=2,
        formats_datasets=["digits"],
    )
    number_formats.measure(given)
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
    number_formats.measure(given)
    assert file.read_text() == first


def test_an_unknown_data_set_is_refused() -> None:
    known = "digits, mnist, femnist"
    with pytest.raises(
        ValueError, match=f"formats_datasets must be chosen from {known}"
    ):
        number_formats.config_of("cifar100", "float32", "")
