"""Copies of a site's log and key before one witness: one of them answers."""

import errno
import functools
import os
import pathlib
import shutil
import threading
from collections.abc import Callable
from typing import Any

import pytest
import races
from deployed import UPDATE_CLIP, begun, entries_of, model, policy, sent, trained
from forks import forks

from fedsvp_jax.deploy import (
    Refused,
    Site,
    Trained,
    Witness,
    begin_round,
    end_round,
)
from fedsvp_jax.deploy import site as site_module
from fedsvp_jax.deploy.witness import Seen
from fedsvp_jax.report import ledger


def copies(folder: pathlib.Path, witness: Any = None) -> list[Site]:
    """Two sites of one log and key, which were copied, and of one witness."""
    witness = witness or Witness(folder / "elsewhere")
    first = Site(folder / "a" / "log", policy(**UPDATE_CLIP), witness=witness)
    first.begin(30)
    shutil.copytree(folder / "a", folder / "b")
    return [first, Site(folder / "b" / "log", first.policy, witness=witness)]


def uploads(site: Site) -> int:
    return int(site.read().sums["uploads"][0])


@pytest.mark.hole
@pytest.mark.parametrize("last_first", [False, True])
def test_of_two_copies_that_are_open_one_answers(
    last_first: bool, tmp_path: pathlib.Path
) -> None:
    """Both sent: that a number is the witness's was taken for its countersignature."""
    one, other = copies(tmp_path)
    before = other.path.read_bytes()
    with one.opened(), other.opened():
        begin_round(one, model(), round_num=1)
        if last_first:  # the entry's number is below the witness's, not the same
            end_round(one, model(), lambda: Trained(trained(model())), round_num=1)
        for _ in range(2):
            with pytest.raises(Refused, match="does not follow: a copy of the log"):
                begin_round(other, model(), round_num=1)
            assert other.path.read_bytes() == before and uploads(one) == 1
        if not last_first:
            end_round(one, model(), lambda: Trained(trained(model())), round_num=1)
    witness = tmp_path / "elsewhere" / "log.seen.json"
    assert not ledger.audit(one.path, witness).problems
    for call in (other.read, lambda: sent(other, 2)):
        with pytest.raises(Refused, match=r"has seen .* and not these"):
            call()
    assert ledger.audit(other.path, witness).problems
    shutil.copy(one.path, other.path)  # the newest copy, as the sentence asks
    sent(other, 2)
    assert uploads(other) == 2


@pytest.mark.hole
@pytest.mark.parametrize("races_run", [5, pytest.param(500, marks=pytest.mark.slow)])
def test_of_two_processes_at_once_exactly_one_answers(
    races_run: int, tmp_path: pathlib.Path
) -> None:
    """They meet at a barrier once both have opened their copies, in every race."""
    for number in range(races_run):
        copies(tmp_path / str(number))
    barrier, answers = forks().Barrier(2), forks().SimpleQueue()
    processes = [
        forks().Process(
            target=races.run, args=(tmp_path, copy, races_run, barrier, answers)
        )
        for copy in "ab"
    ]
    for process in processes:
        process.start()
    both = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    for number, pair in enumerate(zip(*both, strict=True)):
        assert sorted(map(type, pair), key=str) == [bool, str], pair
        log = tmp_path / str(number)
        lengths = [(log / copy / "log").read_bytes().count(b"\n") for copy in "ab"]
        assert sorted(lengths) == [1, 3]  # the loser's entry is undone


class Failing(Witness):
    """Its answer is lost once, before or after it has remembered the entry."""

    lost = ""

    def countersign(self, name: str, site: str, number: int, digest: str) -> Seen:
        lost, self.lost = self.lost, ""
        if lost == "before":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        seen = super().countersign(name, site, number, digest)
        if lost == "after":
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        return seen


@pytest.mark.parametrize("lost", ["before", "after"])
@pytest.mark.parametrize("reopened", [True, False])
def test_a_log_goes_on_when_its_witness_failed(
    reopened: bool, lost: str, tmp_path: pathlib.Path
) -> None:
    """Its entry counts, nothing was sent; it is shown again, and seen once."""
    witness = Failing(tmp_path / "elsewhere")
    one, other = copies(tmp_path, witness)
    with one.opened():
        witness.lost = lost
        with pytest.raises(OSError, match=r"witness cannot be .* nothing is"):
            begin_round(one, model(), round_num=1)
        if not reopened:
            sent(one, 2)
    if reopened:
        found = ledger.audit(one.path, tmp_path / "elsewhere" / "log.seen.json")
        assert not found.problems
        assert ("nothing was sent by it" in found.notes[0]) == (lost == "before")
        with one.opened():  # shows it
            assert witness.last("log").number == 2
        sent(one, 2)
    assert uploads(one) == 2 and len(entries_of(one)) == 4
    found = ledger.audit(one.path, tmp_path / "elsewhere" / "log.seen.json")
    assert not found.problems and "witness" not in found.notes[0]
    with pytest.raises(Refused, match=r"has seen .* and not these"):
        sent(other, 3)


@pytest.mark.parametrize("rounds", [0, 1])
def test_an_entry_that_no_witness_saw_is_refused_where_a_copy_went_on(
    rounds: int, tmp_path: pathlib.Path
) -> None:
    """A kill came between log and witness; then the copy went on."""
    witness = Failing(tmp_path / "elsewhere")
    one, other = copies(tmp_path, witness)
    witness.lost = "before"
    with pytest.raises(OSError, match="nothing is uploaded"):
        sent(one, 1)
    if rounds:
        sent(other, 1)
    else:
        begin_round(other, model(), round_num=1)
    with pytest.raises(Refused, match=r"has seen .* and not these"):
        sent(one, 2)
    sent(other, 2)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_site_whose_first_entry_its_witness_did_not_take_can_begin_again(
    lost: str, tmp_path: pathlib.Path
) -> None:
    witness = Failing(tmp_path / "elsewhere")
    witness.lost = lost
    site = Site(tmp_path / "log", policy(**UPDATE_CLIP), witness=witness)
    with pytest.raises(OSError, match="witness cannot be written"):
        site.begin(30)
    if lost == "before":
        assert not site.path.exists()
        site.begin(30)
    sent(site, 1)  # the answer alone was lost, and the log is there


class Lying(Witness):
    """Its answer is a countersignature of another entry, or of nobody's."""

    answer: Callable[[Seen], Seen] = staticmethod(lambda seen: seen)

    def countersign(self, name: str, site: str, number: int, digest: str) -> Seen:
        return self.answer(super().countersign(name, site, number, digest))


@pytest.mark.hole
@pytest.mark.parametrize(
    "change",
    [
        *({"hash": "0" * 64}, {"number": 3}, {"signature": "0" * 128}, {"site": "ab"}),
        None,  # the countersignature of the entry before
    ],
    ids=str,
)
def test_nothing_leaves_before_this_entry_is_countersigned(
    change: dict[str, Any] | None, tmp_path: pathlib.Path
) -> None:
    """What a witness answered was not read."""
    site, _ = copies(tmp_path, witness := Lying(tmp_path / "elsewhere"))
    first = witness.last("log")
    before = site.path.read_bytes()
    with site.opened():
        witness.answer = lambda seen: seen._replace(**change) if change else first
        with pytest.raises(Refused, match="has not countersigned entry 2 of log"):
            sent(site, 1)
    assert site.path.read_bytes() == before


def test_a_witness_countersigns_one_entry_of_a_number(tmp_path: pathlib.Path) -> None:
    site = begun(tmp_path / "log")
    witness, (first,) = site.witness, entries_of(site)
    key = first.body["site"]
    seen = witness.countersign("log", key, 1, first.hash)
    assert seen == witness.last("log") and seen.verified("log")
    for other in ((key, 1, "0" * 64), ("ab", 1, first.hash), (key, 3, first.hash)):
        with pytest.raises(Refused, match="does not follow"):
            witness.countersign("log", *other)
        assert witness.last("log") == seen


@pytest.mark.hole
def test_two_threads_with_one_site_are_not_one(tmp_path: pathlib.Path) -> None:
    """The second wrote into the first one's open log, and the first was refused."""
    site, raised = begun(tmp_path / "log"), []

    def meanwhile() -> None:
        try:
            sent(site, 2)
        except Refused as refusal:
            raised.append(str(refusal))
        raised.append(uploads(site))

    def training() -> Trained:
        thread = threading.Thread(target=meanwhile)
        thread.start()
        thread.join()
        return Trained(trained(model()))

    sent(site, 1, training)
    assert raised == [
        "another process or thread answers for this client: it has log open",
        1,
    ]
    sent(site, 2)
    assert len(entries_of(site)) == 5


def test_a_forked_process_does_not_go_on_with_an_open_log(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = begun(tmp_path / "log")
    with site.opened():
        monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a child
        with pytest.raises(Refused, match="another process or thread answers"):
            sent(site, 1)


@pytest.mark.hole
def test_a_ledger_tells_a_witness_that_was_put_back(tmp_path: pathlib.Path) -> None:
    """A site refuses then; the auditor saw nothing."""
    site = begun(tmp_path / "log")
    file = tmp_path / "witness" / "log.seen.json"
    before = file.read_bytes()
    sent(site, 1)
    file.write_bytes(before)
    assert ledger.audit(site.path, file).problems == [
        "the witness has seen 1 entries of log, which has 3"
    ]
    begun(tmp_path / "other" / "log")
    other = tmp_path / "other" / "witness" / "log.seen.json"
    assert "is of another site" in ledger.audit(site.path, other).problems[0]


@pytest.mark.hole
def test_a_site_says_that_its_log_is_bound_to_no_records(
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It went on with any, without a word; once per process it says so."""
    data = "the records"
    later = data, site_module.LATER
    pairs = ((None, None), (data, None), (None, data), (data, data), later)
    for begun_with, told in pairs:
        said: list[str] = []
        warn = functools.cache(lambda said=said: said.append("not compared"))
        monkeypatch.setattr(site_module, "_warn_unbound", warn)
        path = tmp_path / f"{begun_with}{told}" / "log"
        Site(path, policy(**UPDATE_CLIP), data=begun_with).begin(30)
        assert len(said) == (begun_with is None)
        said.clear()
        warn.cache_clear()
        for number in (1, 2):
            sent(Site(path, data=told), number)
        assert len(said) == (None in (begun_with, told))
    monkeypatch.undo()
    site_module._warn_unbound.cache_clear()
    caplog.clear()
    for _ in range(2):
        site_module._warn_unbound()
    assert caplog.text.count("records are not compared") == 1
