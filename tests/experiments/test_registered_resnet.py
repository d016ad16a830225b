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


def finished(folder: pathlib.Path, **changes: object) -> pathlib.Path:
    """The folder of a run of one round, whose data are the embedded digits."""
    config = dict(registered_resnet.registered()) | {
        **{"dataset": "digits", "data_dir": None, "seed": 0, "mechanism": "none"},
        **{"versions": {"jax": "1"}, "xla_flags": {}},
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config | changes))
    line = {"diverged_clients": [], "model_finite": True, "test_accuracy": 0.25}
    (folder / "metrics.jsonl").write_text(json.dumps(line | {"round": 1}) + "\n")
    return folder


@pytest.fixture(autouse=True)
def digits(monkeypatch: pytest.MonkeyPatch) -> None:
    known = registered_resnet.registered() | {"dataset": "digits"}
    monkeypatch.setattr(registered_resnet, "registered", lambda: known)


def test_a_run_of_other_settings_or_not_at_its_end_is_no_row(
    tmp_path: pathlib.Path,
) -> None:
    for number, (change, words) in enumerate(
        [
            ({}, "has 1 of 100 rounds"),
            ({"l2_norm_clip": 10.0}, "l2_norm_clip = 10.0, registered is 20"),
            ({"mechanism": "gaussian"}, "gaussian, which is not registered"),
        ]
    ):
        with pytest.raises(ValueError, match=words):
            registered_resnet.row(finished(tmp_path / f"{number}", **change))


def test_rows_say_where_they_come_from_and_are_kept_once_and_all_or_none(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered_resnet, "ROUNDS", 1)
    docs = tmp_path / "docs"
    page = docs / "appendix" / "registered_resnet.md"
    page.parent.mkdir(parents=True)
    page.write_text("<!-- measured: registered_resnet -->\n<!-- end -->\n")
    monkeypatch.setattr(registered_resnet.docs_blocks, "DOCS", docs)
    fedsva = finished(tmp_path / "fedsva", mechanism="fedsva")
    fedavg = finished(tmp_path / "fedavg")
    (tmp_path / "missing").mkdir()
    with pytest.raises(ValueError, match="missing holds no run"):
        registered_resnet.main(["", str(fedsva), str(tmp_path / "missing")])
    registered_resnet.main(["", str(fedsva)])
    assert "FedAvg is not at its end" in page.read_text()
    registered_resnet.main(["", str(fedavg)])
    assert page.read_text().index("| FedAvg |") < page.read_text().index("| FedSVA |")
    with pytest.raises(ValueError, match="FedAvg is kept already"):
        registered_resnet.main(["", str(fedavg)])
    kept = [*map(json.loads, (docs / "results/resnet.jsonl").read_text().splitlines())]
    assert [one["evaluations"] for one in kept] == [[[1, 0.25]]] * 2
    assert [provenance.fault(one) for one in kept] == [None, None]
