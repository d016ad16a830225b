"""A run's folder: the same bytes again, stopped midway, and where a promise ends it."""

import functools
import io
import json
import pathlib
import re
import runpy
import shutil

import jax
import pytest
from small_runs import (
    SAME_BYTES,
    Stopped,
    contents,
    read_rows,
    run_small,
    small,
    stop_at,
)

from fedsvp_jax import run
from fedsvp_jax.core.tree import params_sha256

ROOT = pathlib.Path(__file__).parents[2]
PROMISE = {
    "num_clients": 4,
    "num_hbc_clients": 0,
    "cohort_size": 3,
    "num_rounds": 9,
    "mechanism": "nbafl",
    "class_share": 0.05,
    "eval_every": 2,
}

pytestmark = pytest.mark.usefixtures("shared_rounds")


train = functools.partial(run_small, small())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return folder


def test_a_run_writes_a_line_a_round_and_a_line_a_client_and_round(
    whole: pathlib.Path,
) -> None:
    metrics = read_rows(whole / "metrics.jsonl")
    clients = read_rows(whole / "clients.jsonl")
    assert [row["round"] for row in metrics] == [1, 2, 3, 4, 5]
    assert [row["round"] for row in clients] == [r for r in range(1, 6) for _ in "123"]
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["rounds"] == 5 and summary["stopped_by"] is None
    assert summary["best_accuracy"] == pytest.approx(
        max(row["test_accuracy"] for row in metrics), abs=1e-7
    )
    assert summary["num_parameters"] == 64 * 128 + 128 + 128 * 10 + 10


def test_what_train_returns_is_what_the_file_holds(tmp_path: pathlib.Path) -> None:
    """It held arrays and tuples, which no `json.dumps` takes, and no `==` compares."""
    summary = train(tmp_path / "run")
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert json.dumps(summary, allow_nan=False)


def test_a_shorter_run_is_the_first_part_of_a_longer_one(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """So the model of the best round is that of a run with so many rounds."""
    run_small(small(num_rounds=3), tmp_path / "short")
    short, long = (read_rows(f / "metrics.jsonl") for f in (tmp_path / "short", whole))
    assert short[-1]["epsilon_spent"].pop("pld") and short[-1]["status"].pop("pld")
    assert short == long[:3]


def test_every_field_that_no_noise_hides_is_one_of_a_row(whole: pathlib.Path) -> None:
    """A new field of a row is decided about here: released, or named on the page."""
    page = runpy.run_path(str(ROOT / "docs" / "hooks" / "disclosure.py"))
    released = "round test_accuracy test_loss private_accuracy num_clients "
    released += "model_finite epsilon_spent status delta_spent target_delta adversary "
    released += "relation rdp_by_adversary"
    (row, *_) = read_rows(whole / "metrics.jsonl")
    assert set(row) == {*released.split(), *page["UNRELEASED"]}


@pytest.mark.hole
def test_what_no_program_takes_is_refused_before_a_folder_is_there(
    tmp_path: pathlib.Path,
) -> None:
    """config.json was written before a linear model saw that examples are images."""
    with pytest.raises(ValueError, match=r"takes vectors, got .*model=mlp"):
        run_small(small(model="logistic"), tmp_path / "run")
    with jax.debug_nans(True), pytest.raises(ValueError, match="NANS must be off"):
        run_small(small(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("how", [{}, {"rounds_per_call": 3}], ids=str)
def test_the_same_settings_give_the_same_bytes(
    how: dict[str, int], whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    train(tmp_path / "again", **how)
    assert contents(tmp_path / "again", SAME_BYTES) == contents(whole, SAME_BYTES)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("name", "field"), [("metrics.jsonl", "test_loss"), ("clients.jsonl", "update_l2")]
)
def test_a_changed_row_is_noticed_before_a_run_goes_on(
    name: str, field: str, whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Its summary was made of the number that someone put there."""
    folder = shutil.copytree(whole, tmp_path / "run")
    rows = read_rows(folder / name)
    rows[1][field] += 1e-3
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=rf"{name} has other rows .*put a copy of"):
        train(folder, resume=True)
    assert (folder / name).read_text() == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("round_num", [2, 5])
def test_a_run_stopped_midway_and_resumed_equals_an_uninterrupted_one(
    round_num: int,
    whole: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped after a row that no checkpoint knows of; a terminal watches."""
    folder, screen = tmp_path / "run", Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_at(patch, round_num, "fedsva")
        train(folder)
    assert not (folder / "summary.json").exists()
    assert len(read_rows(folder / "metrics.jsonl")) == round_num
    with open(folder / "clients.jsonl", "a") as file:
        file.write('{"round": 6, "cli')  # torn by a kill
    train(folder, progress=True, resume=True)
    assert contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)
    rows = read_rows(folder / "metrics.jsonl")
    last = screen.getvalue().split("\r")[-1]
    assert "fedsva: 100%" in last and "5/5" in last
    assert f"accuracy={rows[-1]['test_accuracy']:.3f}" in last
    assert re.search(r"\d+:\d+<\d+:\d+, .*round", last)  # time so far, left, rate


@pytest.mark.hole
def test_a_promise_stops_the_run_before_the_upload_that_would_exceed_it(
    tmp_path: pathlib.Path,
) -> None:
    """By basic composition 1.0 is three uploads of 0.3; resumed, it ends there too.

    Its model was not kept: an older one, or none, stood beside the final one's claims.
    """
    folder = tmp_path / "run"
    promise = {"total_epsilon": 1.0, "total_accounting": "basic", "epsilon": 0.3}
    config = small(**promise, **PROMISE)
    summary = run_small(config, folder, checkpoint_every=9)
    clients = read_rows(folder / "clients.jsonl")
    metrics = read_rows(folder / "metrics.jsonl")
    assert summary["stopped_by"] == "promise"
    assert summary["rounds"] == len(metrics) < PROMISE["num_rounds"]
    spent = {
        client: sum(row["epsilon"] for row in clients if row["client"] == client)
        for client in range(PROMISE["num_clients"])
    }
    assert all(0.7 < value <= 1.0 for value in spent.values())
    assert summary["epsilon_spent"]["basic"] == pytest.approx(0.9)
    assert summary["most_uploads"] == 3
    assert all(row["num_clients"] > 0 for row in metrics)
    kept = run.load_model(folder)
    assert kept.rounds == summary["rounds"]
    assert params_sha256(kept.params) == summary["params_sha256"]
    before = contents(folder, SAME_BYTES)
    run_small(config, folder, resume=True)
    assert contents(folder, SAME_BYTES) == before


@pytest.mark.hole
def test_a_promise_about_the_average_uploads_in_whole_cohorts_alone(
    tmp_path: pathlib.Path,
) -> None:
    """Against those who see the average; one client alone was counted before."""
    changes = PROMISE | {"mechanism": "dp_fedavg", "noise_multiplier": 12.0}
    summary = run_small(small(total_epsilon=0.6, **changes), tmp_path / "run")
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert summary["stopped_by"] == "promise" and len(rows) == summary["rounds"] >= 3
    assert {row["num_clients"] for row in rows} == {changes["cohort_size"]}
    assert 0.4 < summary["epsilon_spent"]["rdp"] <= 0.6
    assert summary["status"]["rdp"] == "proved"


@pytest.mark.hole
@pytest.mark.parametrize("cohort_size", [2, 4])
def test_how_many_rounds_a_promise_allows_is_said_before_them(
    cohort_size: int, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Three uploads of each of four clients; it trained, and said so at the end."""
    promise = {"total_epsilon": 1.0, "total_accounting": "basic", "epsilon": 0.3}
    config = small(**PROMISE | promise | {"cohort_size": cohort_size})
    summary = run_small(config, tmp_path / "run")
    about = 3 * 4 // cohort_size
    assert f"fill about {about} of 9 rounds" in caplog.text
    assert "--solve=noise" in caplog.text
    assert about <= summary["rounds"] <= 9
    if cohort_size == 4:
        assert summary["rounds"] == about


def test_a_batch_that_no_client_can_fill_is_warned_of(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """--batch_size=10000 was cut to |D| without a word, and made δ = 1e-4."""
    for size, said in ((10_000, True), (5, False)):
        caplog.clear()
        run_small(small(batch_size=size, num_rounds=1), tmp_path / str(size))
        assert ("10000 is more examples than any client has" in caplog.text) == said
