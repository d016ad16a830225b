"""The comparison of the methods: its runs, its rows, its table; train's presets."""

import json
import pathlib
from typing import Any

import pytest

from experiments import optimizers, presets
from fedsvp_jax.optimizers import METHODS


def test_the_command_computes_what_is_missing_and_writes_the_table(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").mkdir()
    page = tmp_path / "optimizers.md"
    page.write_text("# T\n\n<!-- measured: methods -->\n<!-- end -->\n")
    trained: list[tuple[Any, ...]] = []

    def train(config: Any, folder: pathlib.Path, *, resume: bool) -> None:
        assert resume and config.mechanism == "none" and config.dataset == "femnist"
        step = (config.server_optimizer, config.server_momentum, config.proximal_mu)
        trained.append((*step, config.seed))
        folder.mkdir(parents=True)
        accuracies = {5: 0.125, 10: 0.25 + config.seed / 10}
        rows = [{"round": k, "test_accuracy": v} for k, v in accuracies.items()]
        text = "\n".join(json.dumps(row) for row in [*rows, {"round": 11} | rows[0]])
        (folder / "metrics.jsonl").write_text(text)

    monkeypatch.setattr(optimizers.run, "train", train)
    monkeypatch.setattr(optimizers.provenance, "stamp_of_run", lambda config: {})
    file = tmp_path / "results" / optimizers.RESULTS
    for _ in range(2):  # the second time all rows are there
        optimizers.compute(file, seeds=2, data_dir=None, output_dir=tmp_path / "runs")
    optimizers.write_page(tmp_path)
    assert sorted(trained) == sorted(
        (*step, seed)
        for seed in (0, 1)
        for step in (
            *(("sgd", 0.0, 0.0), ("sgd", 0.9, 0.0), ("sgd", 0.0, 0.1)),
            *(("adam", 0.0, 0.0), ("yogi", 0.0, 0.0)),
        )
    )
    text = page.read_text()
    assert "30.0 (25.0 to 35.0)" in text and "--server_optimizer=yogi" in text
    assert "round 10" in text and "round 5," not in text


def test_every_method_has_a_preset_of_train() -> None:
    assert METHODS.keys() == optimizers.NAMES.keys() <= presets.OF_TRAIN.keys()
