"""A client's state file: it survives restarts, truncation, and a killed client."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from deployed import UPDATE_CLIP, model, policy, trained

from fedsvp_jax.deploy import Refused, StateFile, Trained, answer, new_state
from fedsvp_jax.run import folder

HELPERS = pathlib.Path(__file__).parents[1] / "helpers"


def upload(file: StateFile, round_num: int) -> None:
    received = model()
    answer(
        file,
        received,
        lambda: Trained(received, trained(received), 30),
        round_num=round_num,
        like=received,
    )


def test_what_was_spent_survives_a_restart(tmp_path: pathlib.Path) -> None:
    made = policy(**UPDATE_CLIP)
    upload(StateFile(tmp_path / "state.json", made), 1)
    upload(StateFile(tmp_path / "state.json", made), 2)
    state = StateFile(tmp_path / "state.json", made).read()
    assert (state.last_round, int(state.ledger["uploads"][0])) == (2, 2)
    with pytest.raises(Refused, match="round 2 is over"):
        upload(StateFile(tmp_path / "state.json", made), 2)


def test_a_refused_request_leaves_the_file_as_it_was(tmp_path: pathlib.Path) -> None:
    made, received = policy(**UPDATE_CLIP), model()
    file = StateFile(tmp_path / "state.json", made)
    upload(file, 1)
    before = file.path.read_bytes()
    for arrays in (received[:1], [leaf * float("nan") for leaf in received]):
        with pytest.raises(Refused):
            answer(
                file,
                arrays,
                lambda: pytest.fail("it was trained for nothing"),
                round_num=2,
                like=received,
            )
    assert file.path.read_bytes() == before


def test_nothing_leaves_when_the_state_cannot_be_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = policy(**UPDATE_CLIP)
    file = StateFile(tmp_path / "state.json", made)
    upload(file, 1)
    before = file.path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        upload(file, 2)
    assert file.path.read_bytes() == before


def test_a_damaged_file_is_refused_and_not_begun_anew(tmp_path: pathlib.Path) -> None:
    made = policy(**UPDATE_CLIP)
    file = StateFile(tmp_path / "state.json", made)
    upload(file, 1)
    whole = file.path.read_bytes()
    for damaged in (
        b"",
        whole[: len(whole) // 2],
        whole.replace(b'"last_round": 1', b'"last_round": 0'),
    ):
        file.path.write_bytes(damaged)
        with pytest.raises(Refused, match="is damaged"):
            upload(file, 2)
        assert file.path.read_bytes() == damaged


def test_other_settings_than_those_promised_are_refused(tmp_path: pathlib.Path) -> None:
    made = policy(**UPDATE_CLIP)
    upload(StateFile(tmp_path / "state.json", made), 1)
    other = policy(**UPDATE_CLIP | {"epsilon": 3.0})
    with pytest.raises(Refused, match=r"epsilon is 3\.0 and was 2\.0"):
        upload(StateFile(tmp_path / "state.json", other), 2)


def test_a_state_read_back_is_the_one_that_was_written(tmp_path: pathlib.Path) -> None:
    made = policy(**UPDATE_CLIP)
    file = StateFile(tmp_path / "state.json", made)
    state = new_state(made)
    file.write(state)
    read = file.read()
    assert read.settings == state.settings and read.memory == state.memory
    assert read.ledger.keys() == state.ledger.keys()
    assert all((read.ledger[key] == state.ledger[key]).all() for key in read.ledger)


# A client that uploads round after round; what it sends goes to a file of the test's.
CLIENT = """if True:
    import os, pathlib, sys
    sys.path.insert(0, {helpers!r})
    from deployed import UPDATE_CLIP, model, policy, trained
    from fedsvp_jax.deploy import StateFile, Trained, answer
    made, received = policy(**UPDATE_CLIP, num_rounds=100_000), model()
    file = StateFile(pathlib.Path({folder!r}) / "state.json", made)
    sent = os.open({folder!r} + "/sent", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(file.read().last_round + 1, 100_000):
        answer(
            file, received, lambda: Trained(received, trained(received), 30),
            round_num=number,
        )
        os.write(sent, b"%d\\n" % number)
    """


@pytest.mark.slow
def test_no_killed_client_sent_an_upload_that_its_ledger_did_not_count(
    tmp_path: pathlib.Path,
) -> None:
    made, rng = policy(**UPDATE_CLIP, num_rounds=100_000), random.Random(0)
    program = CLIENT.format(helpers=str(HELPERS), folder=str(tmp_path))
    counted = 0
    for _ in range(20):
        process = subprocess.Popen([sys.executable, "-c", program])
        deadline = time.monotonic() + 120
        sent = tmp_path / "sent"
        size = sent.stat().st_size if sent.exists() else 0
        while not sent.exists() or sent.stat().st_size == size:  # until it uploads
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        rounds = [int(line) for line in sent.read_text().split()]
        state = StateFile(tmp_path / "state.json", made).read()
        uploads = int(state.ledger["uploads"][0])
        assert len(set(rounds)) == len(rounds)
        assert state.last_round >= rounds[-1] and uploads >= len(rounds)
        assert uploads - len(rounds) <= counted + 1  # at most one a kill is lost
        counted = uploads - len(rounds)
