"""--dry_run: what a run would be, by the run's own functions."""

import itertools
import math
import pathlib
import re
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from commands import SMALL_RUN, command, start
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from small_runs import digits, small

from experiments import dry_run, messages
from fedsvp_jax import run
from fedsvp_jax.accounting.claims import planned_row
from fedsvp_jax.federation import Program, build
from fedsvp_jax.report import read
from fedsvp_jax.run.folder import RunFolder
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer


def program(**changes: object) -> Program:
    return build([small(**changes)], digits())


def test_the_holdings_are_the_splits_examples() -> None:
    made = program()
    held = dry_run.holdings(made)
    assert held is not None
    split = made.data.split
    sizes = np.asarray(split.num_train[0] + split.num_validation[0])
    np.testing.assert_array_equal(held.sum(1), sizes)
    labels = np.asarray(made.data.examples.labels)
    rows = np.asarray(split.train[0, 0, : split.num_train[0, 0]]).tolist()
    rows += np.asarray(split.validation[0, 0, : split.num_validation[0, 0]]).tolist()
    assert held[0, 0] == (labels[rows] == 5).sum()
    assert held[-1, 0] == 0  # honest-but-curious


def test_more_uploads_are_never_planned_to_spend_less() -> None:
    """Two of the costliest were said to cost more than one in each of five rounds."""
    changes = {"mechanism": "time_varying", "decay": 0.5, "num_rounds": 5}
    (account,) = program(clipping="update_clip", **changes).accounts
    planned = [planned_row(account, uploads) for uploads in (1, 2, 4, None)]
    for method in ("basic", "rdp", "pld"):
        spent = [row["epsilon_spent"][method] for row in planned]
        assert spent == sorted(spent) and spent[0] < spent[1]


SOLVED = {"total_epsilon": 4.0, "solve": "noise", "delta": 1e-5}
ANALYTIC = {"clipping": "update_clip", "calibration": "analytic"}
POISSON = {"clipping": "per_example", "relation": "add_remove", "batches": "poisson"}
SHARED = {"clipping": "update_clip", "noise_trust": "secure_aggregation"}


@pytest.mark.hole
@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": "dp_fedavg", "noise_multiplier": 1.0},
        {"mechanism": "dp_fedavg"} | SOLVED,
        {"mechanism": "gaussian"} | SHARED | SOLVED,
        {"mechanism": "nbafl"} | ANALYTIC | SOLVED,
        {"mechanism": "gaussian"} | POISSON | SOLVED,
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_dry_run_solver_run_curve_and_table_say_one_number(
    changes: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """Of dp_fedavg at z = 1, ten uploads were planned as 4.38 and spent 17.86.

    The curve of one run ended at .0733 where its table said .0310.
    """
    settings = {"num_clients": 4, "cohort_size": 4, "num_hbc_clients": 0}
    config = small(**settings, num_rounds=2, model="mlp", **changes)
    planned = planned_row(build([config], digits()).accounts[0])
    summary = run.train(config, tmp_path, dataset=digits())
    for name, value in planned.items():
        found = summary[name]
        assert found == (
            pytest.approx(value, rel=1e-5) if name == "epsilon_spent" else value
        ), name
    if "total_epsilon" in changes:
        assert 3.9 < planned["epsilon_spent"]["rdp"] <= 4.0 * (1 + 1e-6)
    table = {
        row["adversary"]: row["epsilon"]
        for row in summary["guarantees"]
        if row["method"] == "rdp" and row["copies"] == 1
    }
    assert table[summary["adversary"]] == summary["epsilon_spent"]["rdp"]
    most = max(summary["by_client"]["epsilon"])
    assert most == summary["epsilon_spent"]["basic"]
    assert read.read_run(tmp_path).metrics[-1]["rdp_by_adversary"] == table


def test_the_summary_tells_data_noise_epsilon_and_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "240")  # of a terminal: no head is broken
    text = dry_run.summary(program(num_rounds=3), digits())
    assert "class 5 (private)" in text and "Clients: 7 by partition=paper" in text
    assert "σ on the upload" in text and "ε spent at δ = 1e-05" in text
    assert "against: server; neighbours: replace one record of a client:" in text
    assert "3 × 3 trainings; FedAvg has 3 × 1.\n" in text
    assert re.search(r"^round +R +σ", text, re.MULTILINE)
    changes = ANALYTIC | {"total_epsilon": 2.0, "solve": "noise", "delta": 1e-6}
    solved = program(mechanism="nbafl", num_rounds=3, **changes)
    text = dry_run.summary(solved, digits())
    assert "Solved: epsilon = " in text and "is kept" in text
    assert "fill about 3 of 3 rounds." in text
    short = program(mechanism="nbafl", num_rounds=30, epsilon=0.3, total_epsilon=1.0)
    text = dry_run.summary(short, digits())
    assert "of 30 rounds; --solve=noise finds the noise for all" in text
    text = dry_run.summary(program(mechanism="none"), digits())
    assert "promises nothing" in text and text.count("\n\n\n") == 0
    assert "Batches:" not in text
    assert re.search(r"^round +σ", text, re.MULTILINE)  # which no R moves
    text = dry_run.summary(program(batch_size=9999), digits())
    assert "examples at most, since no client has batch_size = 9999" in text


def test_two_epsilons_of_one_upload_are_told_apart() -> None:
    """Solved was epsilon = 0.104, and the upload below it had 0.163, without a word."""
    made = program(mechanism="gaussian", num_rounds=3, **SHARED, **SOLVED)
    text, epsilon = dry_run.summary(made, digits()), made.configs[0].epsilon
    assert f"and against the same adversary, is epsilon = {epsilon:.6g}." in text
    z = float(made.mechanism.least_multiplier)  # of the average, as the claim is
    assert get_epsilon_gaussian(z, 1e-5) == pytest.approx(epsilon, rel=1e-4)
    by_formula = 0.5 / z**2 + math.sqrt(2 * math.log(1e5)) / z
    assert f" {by_formula:.4g} " in text and by_formula > 1.2 * epsilon
    alone = program(mechanism="gaussian", num_rounds=3, **ANALYTIC, **SOLVED)
    assert "zCDP" not in dry_run.summary(alone, digits())


def test_noise_on_the_upload_is_none_in_a_local_step() -> None:
    """ "σ in a local step" was 0, of noise in whole numbers."""
    discrete = POISSON | {"noise_sampler": "discrete", "local_steps": 1}
    discrete |= {"batch_size": 32}
    for changes, head in ((POISSON, "in a local step"), (discrete, "on the upload")):
        made = program(mechanism="gaussian", num_rounds=3, **changes, **SOLVED)
        text = dry_run.summary(made, digits())
        assert re.search(rf"^round +σ {head}.*\n.*\n1 +(?!0 )", text, re.MULTILINE)


def test_the_seconds_tell_the_time_or_more_than_which_it_is() -> None:
    def text(*seconds: float) -> str:
        return messages.filled(
            "dry_run_time.txt", seconds=seconds, num_rounds=3, limit=60.0
        )

    assert "about 9 s to compute 3 rounds" in text(6.0, 2.0, 4.0)
    assert "the 2 that were run and thrown away; and 6 s to compile" in text(6, 2, 4)
    assert "more than 2.7 min to compute 3 rounds" in text(6.0)
    assert "did not end in 54 s; and 6 s to compile them" in text(6.0)
    assert "unknown, since 60 s did not suffice to compile" in text()


@pytest.mark.hole
def test_a_dry_run_runs_three_rounds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran as many as three seconds take: 59 of a small model."""
    ran: list[int] = []

    def advance(_: Trainer, state: Any, first: int, rounds: int) -> tuple[Any, None]:
        assert first == sum(ran)
        ran.append(rounds)
        return state, None

    monkeypatch.setattr(Trainer, "advance", advance)
    monkeypatch.setattr(Trainer, "initial_state", lambda _: None)
    for rounds, most in ((50, 3), (2, 2)):
        seconds = dry_run.measured(program(num_rounds=rounds), Placement())
        assert sum(ran) == most == len(seconds) - 1
        ran.clear()


@pytest.mark.hole
def test_rounds_are_timed_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST on a busy machine said nothing for ten minutes."""
    ended, of_rounds = threading.Event(), iter((0.0, 300.0))

    def advance(_: Trainer, state: Any, *__: int) -> tuple[Any, None]:
        ended.wait(next(of_rounds))
        return state, None

    monkeypatch.setattr(Trainer, "advance", advance)
    monkeypatch.setattr(dry_run, "LIMIT", 10.0)
    began = time.perf_counter()
    assert len(dry_run.measured(program(), Placement())) == 1
    assert time.perf_counter() - began < 100
    ended.set()

    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("sweep_devices")

    monkeypatch.setattr(Trainer, "__init__", fails)
    with pytest.raises(ValueError, match="sweep_devices"):
        dry_run.measured(program(), Placement())


@pytest.mark.hole
def test_what_follows_from_settings_is_there_before_a_round_and_ctrl_c_ends_it(
    tmp_path: pathlib.Path,
) -> None:
    """It said "go on with the same command and --resume", of which nothing is kept."""
    words = ("experiments.train", "--dry_run", *SMALL_RUN, "--mechanism=gaussian")
    with start(*words, XDG_CACHE_HOME=str(tmp_path)) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        text = "".join(itertools.takewhile(lambda line: "Ctrl-C" not in line, lines))
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=300)
    assert "ε of the run" in text and "Time" not in rest
    assert (process.returncode, errors) == (130, "error: stopped by SIGINT\n")


def test_the_command_keeps_no_model_and_leaves_room_for_the_run(
    tmp_path: pathlib.Path,
) -> None:
    line = ("experiments.train", "--dry_run", *SMALL_RUN, "--mechanism=none")
    done = command(*line, "--num_rounds=1", f"--output_dir={tmp_path}")
    assert done.status == 0 and done.stderr == ""
    assert "\nTime: about " in done.stdout
    assert not list(tmp_path.iterdir())
    RunFolder(tmp_path).start({"seed": 0}, resume=False)


@pytest.mark.hole
def test_what_nobody_asked_for_is_told_of_own_data(tmp_path: pathlib.Path) -> None:
    """U17: the private category was silently the first one in the alphabet."""
    path = tmp_path / "own.csv"
    rows = [f"{n},{'hi' if n % 3 else 'lo'},{'ab'[n % 2]}" for n in range(125)]
    path.write_text("\n".join(["x,tone,kind", *rows]))
    line = (
        *("experiments.train", "--dataset=csv", f"--data_dir={path}", "--dry_run"),
        *("--label_column=kind", "--attributes=column:tone", "--mechanism=nbafl"),
        "--num_rounds=1",  # no --output_dir, for nothing is written
    )
    told = command(*line).stdout.splitlines()
    assert told[0].startswith("chosen for 100 examples: partition = iid, num_clients =")
    assert "delta = 0.1 (delta is 1/batch_size as published" in told[0]
    assert told[1].startswith("chosen as private: hi, of hi, lo (that a row belongs")
    named = command(*line, "--private_category=lo", "--delta=1e-5").stdout
    assert "chosen as private" not in named and "as published" not in named
    assert "lo (private)" in named
