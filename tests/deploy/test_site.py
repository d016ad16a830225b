"""A site's log: it survives restarts, truncation, and a killed client."""

import dataclasses
import fcntl
import json
import logging
import os
import pathlib
import stat
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from deployed import UPDATE_CLIP, begun, entries_of, model, policy, sent, trained

from fedsvp_jax.accounting import claims
from fedsvp_jax.core.files import replace_file
from fedsvp_jax.deploy import (
    SECRET,
    Refused,
    Seeded,
    Site,
    Trained,
    Witness,
    answer,
    begin_round,
    end_round,
    private_round,
)
from fedsvp_jax.deploy import witness as witnesses
from fedsvp_jax.deploy.refusal import refusing
from fedsvp_jax.deploy.site import _check_settings, fingerprint, policy_of
from fedsvp_jax.report import ledger

SIZES = r"num_examples must be .* from 20 to 20000.*: leave rows out, or agree anew"


@pytest.mark.parametrize("number", [-1, 0, 19, 30.5, 20_001, 10**9, 1e9])
def test_a_number_of_examples_that_would_take_the_noise_away_is_refused(
    number: float, tmp_path: pathlib.Path
) -> None:
    file = Site(tmp_path / "state.json", policy(**UPDATE_CLIP))
    with pytest.raises(
        ValueError,
        match=SIZES,
    ):
        file.begin(number)  # type: ignore[arg-type]
    assert not any(tmp_path.iterdir())
    file.begin(20_000)  # 1,000 times the smallest client's


@pytest.mark.hole
def test_a_training_that_steps_in_place_is_clipped(tmp_path: pathlib.Path) -> None:
    """The update was counted against weights that the training had moved: 1e6 left."""
    site, weights = begun(tmp_path / "log"), model()

    def step_in_place() -> Trained:
        for leaf in weights:
            leaf += 1e6
        return Trained(weights)

    upload, _ = answer(site, weights, step_in_place, round_num=1)
    assert max(float(np.abs(leaf).max()) for leaf in upload) < 1e3
    weights = model()
    with private_round(site, weights, round_num=2) as private:
        upload = private(step_in_place().arrays)
    assert max(float(np.abs(leaf).max()) for leaf in upload) < 1e3


@pytest.mark.hole
def test_a_round_whose_block_failed_counts_once_and_may_be_answered(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "This client has answered round 1", which it had not; nothing named the way."""
    site, other = begun(tmp_path / "failed"), begun(tmp_path / "sound")
    with (
        pytest.raises(ZeroDivisionError),
        private_round(site, model(), round_num=1),
    ):
        raise ZeroDivisionError
    with (
        pytest.raises(Refused, match=r"round 1 is over: .*by end_round, where"),
        private_round(site, model(), round_num=1),
    ):
        pass
    well = Trained(trained(model()))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(os, "write", full)
        end_round(site, model(), lambda: well, round_num=1)
    assert int(site.read().sums["uploads"][0]) == 1
    end_round(Site(site.path), model(), lambda: well, round_num=1)
    answer(other, model(), lambda: well, round_num=1)
    for again in (end_round, answer):
        with pytest.raises(Refused, match="round 1 is over"):
            again(site, model(), lambda: well, round_num=1)
    spent, sound = (
        claims.row(one.read().account(one.policy), last=True) for one in (site, other)
    )
    assert spent == sound and spent["epsilon_spent"]["rdp"] > 0
    assert not ledger.audit(site.path).problems


@pytest.mark.hole
@pytest.mark.parametrize("promise", [{}, {"total_accounting": "pld"}], ids=str)
def test_an_upload_that_no_record_decides_is_in_order(
    promise: dict[str, str], tmp_path: pathlib.Path
) -> None:
    """Its noise multiplier is infinite, which JSON has as null: "no site's log"."""
    settings = {"clipping": "attribute_records", "private_from": 1, **promise}
    settings |= {"total_epsilon": 50.0} if promise else {}
    site = begun(tmp_path / "log", **UPDATE_CLIP | settings)
    for round_num in (1, 2):
        answer(site, model(), lambda: Trained(model()), round_num=round_num)
    assert entries_of(site)[2].body["noise_multiplier"] is None
    audited = ledger.audit(site.path)
    assert not audited.problems and 0 < audited.spent < np.inf
    assert audited.rows[0].epsilon == 0


@pytest.mark.hole
def test_a_witness_that_has_no_key_leaves_no_key_of_the_site(
    tmp_path: pathlib.Path,
) -> None:
    """The second call said that the site had begun already."""
    (tmp_path / "mount" / "lost+found").mkdir(parents=True)
    (tmp_path / "site").mkdir()
    site = Site(
        tmp_path / "site" / "log", policy(**UPDATE_CLIP), witness=tmp_path / "mount"
    )
    for _ in range(2):
        with pytest.raises((OSError, Refused, ValueError), match=r"witness\.key"):
            site.begin(100)
    assert not any((tmp_path / "site").iterdir())


def test_seeded_noise_is_never_without_a_word(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, well = begun(tmp_path / "state.json"), Trained(trained(model()))
    file.randomness = Seeded(0, 1)
    _, record = answer(file, model(), lambda: well, round_num=1)
    assert "HIDES NOTHING" in caplog.text
    assert set(record["status"].values()) == {"nominal"}
    caplog.clear()
    file.randomness = SECRET
    sent(file, 2)
    assert "HIDES NOTHING" not in caplog.text
    spent = claims.row(file.read().account(file.policy), last=False)
    assert set(spent["status"].values()) == {"nominal"}


def test_the_noise_is_solved_for_once_in_a_sites_life(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = begun(tmp_path / "log", solve="noise", total_epsilon=4.0)
    monkeypatch.setattr("fedsvp_jax.deploy.policy.solve_noise", None)
    again = Site(tmp_path / "log")
    assert again.policy.settings() == file.policy.settings()
    sent(again, 1)
    assert file.read().last_round == 1
    before = file.policy.settings() | {"solve": "noise"}  # a log of version 0.1
    _check_settings(before, file.policy.settings())


# What training may do that no server may see.
def raising() -> Trained:
    raise FloatingPointError("record 17 is wrong")


def exiting() -> Trained:
    raise SystemExit("record 17 is wrong")


FAILURES: dict[str, Callable[[], Trained]] = {
    "exits": exiting,
    "raises": raising,
    "another shape": lambda: Trained([leaf.T for leaf in model()]),
    "another number": lambda: Trained(model()[:1]),
    "another type": lambda: Trained([leaf.astype(int) for leaf in model()]),
    "no arrays": lambda: Trained([0.0, 0.0]),  # type: ignore[list-item]
    "no ratio": lambda: Trained(model(), "none"),  # type: ignore[arg-type]
    "NaN": lambda: Trained([leaf * np.float32("nan") for leaf in model()]),
}
POLICIES: dict[str, dict[str, Any]] = {
    "update_clip": {},
    "paper": {"mechanism": "nbafl", "clipping": "paper", "calibration": "classical"}
    | {"allow_large_epsilon": True},
}


@pytest.mark.hole
@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("changes", POLICIES)
def test_a_training_that_fails_sends_noise_and_is_charged(
    name: str, changes: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = begun(tmp_path / "state.json", **POLICIES[changes])
    well = begun(tmp_path / "well.json", **POLICIES[changes])
    with caplog.at_level(logging.ERROR):
        upload = sent(file, 1, FAILURES[name])
    assert "the training failed" in caplog.text
    sent(well, 1)
    spent, usual = file.read(), well.read()
    np.testing.assert_equal(dataclasses.asdict(spent), dataclasses.asdict(usual))
    moved = [(new - old).ravel() for new, old in zip(upload, model(), strict=True)]
    clip = file.policy.config.l2_norm_clip
    bound = {"update_clip": clip, "paper": 2 * clip / 20}[changes]  # least client: 20
    std = float(file.policy.mechanism.least_multiplier) * bound
    assert 0.5 < np.std(np.concatenate(moved)) / std < 1.5
    with pytest.raises(Refused, match="round 1 is over"):
        sent(file, 1)


@pytest.mark.hole
def test_a_model_of_float64_is_rounded_and_answered_in_its_own_type(
    tmp_path: pathlib.Path,
) -> None:
    """Each round was refused, and scikit-learn's models are float64."""
    exact = [leaf + 1e-12 for leaf in map(np.float64, model())]
    uploads = []
    for name, received in (("float64", exact), ("float32", model())):
        file = begun(tmp_path / name)
        well = Trained([leaf + type(leaf.flat[0])(0.01) for leaf in received])
        file.randomness = Seeded(0, 1)
        upload, _ = answer(file, received, lambda well=well: well, round_num=1)
        assert {leaf.dtype.name for leaf in upload} == {name}
        uploads.append(upload)
    for double, single in zip(*uploads, strict=True):
        np.testing.assert_allclose(double, single, atol=1e-6)
        np.testing.assert_array_equal(double, double.astype(np.float32))
    file = begun(tmp_path / "beyond")
    with pytest.raises(Refused, match=r"^array 0 of .* holds NaN or infinity$"):
        begin_round(file, [leaf * 1e300 for leaf in exact], round_num=1)


def test_another_error_than_a_refusal_is_not_told() -> None:
    with pytest.raises(Refused, match="the client failed"), refusing():
        exiting()


@pytest.mark.hole
def test_a_round_is_charged_before_a_record_is_read(tmp_path: pathlib.Path) -> None:
    file = begun(tmp_path / "state.json", total_epsilon=9.0)

    def killed() -> Trained:
        state = file.read()
        assert (state.last_round, int(state.sums["uploads"][0])) == (1, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sent(file, 1, killed)
    lost = file.read()
    with pytest.raises(Refused, match="round 1 is over"):
        sent(file, 1)
    sent(file, 2)
    assert int(file.read().sums["uploads"][0]) == 2
    spent = file.read().account(file.policy).epsilon_spent("rdp")
    assert spent > lost.account(file.policy).epsilon_spent("rdp") > 0


def test_an_upload_that_was_not_begun_or_is_made_already_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    file, received = begun(tmp_path / "state.json"), model()
    end = partial(end_round, file, received, lambda: Trained(trained(received)))
    with pytest.raises(Refused, match="round 1 is over, or this client never began"):
        end(round_num=1)
    begin_round(file, received, round_num=1)
    begin_round(file, received, round_num=2)  # the first is lost, and counts
    with pytest.raises(Refused, match="round 1 is over"):
        end(round_num=1)
    end(round_num=2)
    with pytest.raises(Refused, match="round 2 is over"):
        end(round_num=2)
    assert int(file.read().sums["uploads"][0]) == 2


def test_one_process_at_a_time_holds_the_state(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = begun(tmp_path / "state.json")

    def meanwhile() -> Trained:
        with pytest.raises(Refused, match="another process or thread answers"):
            sent(Site(file.path, file.policy), 2)
        return Trained(trained(model()))

    sent(file, 1, meanwhile)
    assert file.read().last_round == 1
    sent(file, 2)
    assert isinstance(file.witness, Witness)
    key = tmp_path / "witness/witness.key"

    def replaced(*arguments: Any, **options: Any) -> None:
        with key.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        replace_file(*arguments, **options)

    monkeypatch.setattr(witnesses, "replace_file", replaced)
    sent(file, 3)  # both entries under the witness's lock


def test_what_is_written_is_on_the_disk_before_an_upload_leaves(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's entry; then its witness's file, its name, and the name's folder.

    Before the first entry: the witness's folder and key, a key, and the log's folder.
    """
    done: list[str] = []
    replace = os.replace

    def synced(number: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")

    def replaced(*names: pathlib.Path) -> None:
        done.append("name")
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    file = begun(tmp_path / "state.json")
    entry = ["file", "file", "name", "folder"]
    assert done == ["folder", "file", "file", "folder", *entry]
    done.clear()
    with file.opened() as log:
        log.write("charge", log.state, {})
    assert done == entry


def test_a_state_behind_a_link_stays_behind_it(tmp_path: pathlib.Path) -> None:
    link, kept = tmp_path / "state.json", tmp_path / "kept" / "client.json"
    kept.parent.mkdir()
    link.symlink_to(kept)
    sent(begun(link), 1)
    assert link.is_symlink() and Site(kept).read().last_round == 1


def test_a_link_in_the_place_of_the_unfinished_file_is_not_followed(
    tmp_path: pathlib.Path,
) -> None:
    file, other = begun(tmp_path / "state.json"), tmp_path / "other"
    other.write_text("as it was")
    (tmp_path / "witness" / "state.json.seen.json.tmp").symlink_to(other)
    sent(file, 1)
    assert other.read_text() == "as it was" and file.read().last_round == 1


def test_nobody_else_reads_what_was_spent(tmp_path: pathlib.Path) -> None:
    sent(begun(tmp_path / "state.json"), 1)
    modes = [file.stat().st_mode for file in tmp_path.rglob("*") if file.is_file()]
    assert [stat.S_IMODE(mode) for mode in modes] == 4 * [0o600]


def test_a_log_of_another_version_goes_on_where_no_setting_in_use_is_gone() -> None:
    _check_settings({"clip_weights": False, "epsilon": 1.0}, {"epsilon": 1.0})
    for old in ({"clip_weights": True, "epsilon": 1.0}, {"epsilon": 2.0}):
        with pytest.raises(Refused, match="promised other settings"):
            _check_settings(old, {"epsilon": 1.0})
    log = json.dumps({"config": {"clip_weights": True}})
    with pytest.raises(Refused, match=r"this version .*'clip_weights'"):
        policy_of(log)


@pytest.mark.hole
def test_records_behind_a_link_are_not_passed_over(tmp_path: pathlib.Path) -> None:
    """Other records in a linked folder had the same fingerprint."""
    (tmp_path / "scans").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "more").symlink_to(tmp_path / "scans")
    with pytest.raises(ValueError, match="is a link to a folder"):
        fingerprint(tmp_path / "data")
