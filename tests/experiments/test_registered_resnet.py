"""The registered rules give every verdict, each on the side of its bound it should."""

import json
import pathlib

import pytest

from experiments import provenance, registered_resnet


def row(mechanism: str, *accuracies: float, diverged: bool = False) -> dict:
    evaluations = [[10 * n, one] for n, one in enumerate(accuracies, start=1)]
    return {
        "mechanism": mechanism,
        "evaluations": evaluations,
        "diverged": diverged,
        "rounds": 100,
    }


@pytest.mark.parametrize(
    ("fedavg", "fedsva", "wanted"),
    [
        ((0.9, 0.6, 0.6, 0.6), row("fedsva", 0.1, 0.6, 0.6, 0.6), "as published"),
        ((0.6,) * 3, row("fedsva", 0.481, 0.481, 0.481), "as published"),
        ((0.6,) * 3, row("fedsva", 0.479, 0.479, 0.479), "in between"),
        ((0.6,) * 3, row("nbafl", 0.481, 0.481, 0.481), "in between"),
        ((0.6,) * 3, row("fedsva", 0.9, 0.15, 0.1, 0.1), "chance"),
        ((0.6,) * 3, row("fedsva", 0.1, 0.1, 0.16), "in between"),
        ((0.6,) * 3, row("fedsva", diverged=True), "chance"),
        ((0.5, 0.5, 0.49), row("fedsva", 0.4, 0.4, 0.4), "none: FedAvg is below"),
    ],
)
def test_a_verdict_follows_the_registered_rules(fedavg, fedsva, wanted: str) -> None:
    first = row("none", *fedavg)
    assert registered_resnet.verdict(fedsva, first).startswith(wanted)
    assert wanted in registered_resnet.table([first, fedsva])


def test_a_run_that_is_not_at_its_end_is_no_row(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    line = {"diverged_clients": [], "model_finite": True, "test_accuracy": 0.1}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(ValueError, match="has 1 of 100 rounds"):
        registered_resnet.row(tmp_path)


def test_a_row_says_where_it_comes_from(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered_resnet, "ROUNDS", 1)
    config = {"dataset": "digits", "data_dir": None, "seed": 0, "mechanism": "none"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    line = {"diverged_clients": [], "model_finite": True, "test_accuracy": 0.25}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line | {"round": 1}) + "\n")
    kept = registered_resnet.row(tmp_path)
    assert kept["evaluations"] == [[1, 0.25]]
    assert provenance.fault(kept) is None
