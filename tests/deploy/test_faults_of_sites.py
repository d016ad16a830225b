"""What is tried on a site's budget, and what comes back."""

import errno
import hashlib
import json
import os
import pathlib
import resource
import shutil
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from deployed import UPDATE_CLIP, entries_of, model, policy, sent, trained

from fedsvp_jax.deploy import (
    Refused,
    Site,
    Trained,
    Witness,
    answer,
    chain,
    fingerprint,
)
from fedsvp_jax.deploy.chain import Key, _canonical, verifies
from fedsvp_jax.deploy.witness import Seen


class Place(NamedTuple):
    """A site that has answered rounds 1 and 2 of 5, and how it was before 2."""

    folder: pathlib.Path
    before: pathlib.Path

    @property
    def log(self) -> pathlib.Path:
        return self.folder / "log"

    @property
    def site(self) -> Site:
        return Site(
            self.log,
            policy(**UPDATE_CLIP),
            witness=self.folder / "elsewhere",
            data="the records",
        )


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Place:
    made = Place(tmp_path / "site", tmp_path / "backup")
    made.site.begin(30)
    sent(made.site, 1)
    shutil.copytree(made.folder, made.before)
    sent(made.site, 2)
    return made


def restored(place: Place, name: str) -> None:
    shutil.copy(place.before / name, place.folder / name)


def resigned(change: Callable[[dict[str, Any]], Any]) -> Callable[[Place], None]:
    """The last entry changed, its hash and signature by the site's own key."""

    def fault(place: Place) -> None:
        *lines, last = place.log.read_bytes().splitlines(keepends=True)
        told = json.loads(last)
        del told["signature"]
        change(told)
        told["signature"] = Key(place.folder / "log.key").sign(_canonical(told))
        place.log.write_bytes(b"".join([*lines, _canonical(told), b"\n"]))

    return fault


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Place], Any]:
    return lambda place: place.log.write_bytes(change(place.log.read_bytes()))


def swapped(whole: bytes) -> bytes:
    first, second, third, *others = whole.splitlines(keepends=True)
    return b"".join([first, third, second, *others])


def cloned(place: Place) -> None:
    """A second machine went on with a copy; both have the witness."""
    clone = place.folder.with_name("clone")
    clone.mkdir()
    for name in ("log", "log.key"):
        shutil.copy(place.folder / name, clone / name)
    other = Site(clone / "log", place.site.policy, witness=place.folder / "elsewhere")
    sent(other, 3)


def of_another_site(place: Place) -> None:
    """A whole new log and witness of a key of the attacker's own, but not its file."""
    made = Site(place.folder.with_name("other") / "log", place.site.policy)
    made.begin(30)
    shutil.copy(made.path, place.log)


def countersigned_forgery(place: Place) -> None:
    """Of one who holds the witness's key and not the site's."""
    resigned(lambda told: told["body"].update(noise_multiplier=9.0))(place)
    *lines, last = place.log.read_bytes().splitlines(keepends=True)
    told = json.loads(last)
    told["signature"] = "0" * 128
    last = _canonical(told)
    place.log.write_bytes(b"".join([*lines, last, b"\n"]))
    file = place.folder / "elsewhere" / "log.seen.json"
    seen = Seen(**json.loads(file.read_bytes()))
    seen = seen._replace(hash=hashlib.sha256(last).hexdigest())
    key = Key(place.folder / "elsewhere" / "witness.key")
    seen = seen._replace(signature=key.sign(seen.message("log")))
    file.write_text(json.dumps(seen._asdict()))


FAULTS: dict[str, tuple[Callable[[Place], Any], str]] = {
    "deleted log": (lambda p: p.log.unlink(), "witness has seen 5 .* newest copy back"),
    "deleted key": (lambda p: (p.folder / "log.key").unlink(), "key .* is missing"),
    "deleted witness": (
        lambda p: shutil.rmtree(p.folder / "elsewhere"),
        "the witness does not know",
    ),
    "restored backup of the log": (
        lambda p: restored(p, "log"),
        "has seen 5 entries of log, and not these 3",
    ),
    "restored backup of the witness": (
        lambda p: restored(p, "elsewhere/log.seen.json"),
        "has seen 3 entries of log, and not these 5",
    ),
    "cloned log": (cloned, "has seen 7 entries of log, and not these 5"),
    "changed number": (
        rewritten(lambda whole: whole.replace(b'"uploads":[1]', b'"uploads":[0]')),
        r"entry \d of log was changed",
    ),
    "edited, hashed and signed anew": (
        resigned(lambda told: told["body"].update(noise_multiplier=9.0)),
        "has seen 5 entries of log, and not these 5",
    ),
    "countersigned without the site's key": (
        countersigned_forgery,
        "entry 5 of log was changed: its signature is not the site's",
    ),
    "entries in another order": (rewritten(swapped), "entry 2 of log does not follow"),
    "another key": (
        lambda p: (p.folder / "log.key").write_text("ab" * 32),
        "of another site or key",
    ),
    "damaged key": (
        lambda p: (p.folder / "log.key").write_text("no digits"),
        r"key log\.key is damaged",
    ),
    "entry without a time": (
        resigned(lambda told: told.pop("time")),
        "entry 5 of log is damaged",
    ),
    "another site's log": (of_another_site, "of another site or key"),
    "empty log": (rewritten(lambda _: b""), "holds no entry"),
    "brackets in brackets": (
        rewritten(lambda _: b"[" * 10**5 + b"\n"),
        "entry 1 .* is damaged",
    ),
    "former format": (
        rewritten(lambda whole: whole.replace(b'"format":4', b'"format":3')),
        "is of format 3, this version reads 4",
    ),
    "changed witness": (
        lambda p: (p.folder / "elsewhere" / "log.seen.json").write_text(
            (p.before / "elsewhere" / "log.seen.json")
            .read_text()
            .replace('"number": 3', '"number": 5')
        ),
        "the witness's file log.seen.json is damaged or was changed",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_log_that_is_not_the_newest_whole_one_answers_nothing(
    name: str, place: Place
) -> None:
    """Neither a site that opens it anew, nor one that had read it before the fault."""
    fault, words = FAULTS[name]
    had_read = place.site
    had_read.read()
    fault(place)
    for site in (place.site, had_read):
        with pytest.raises(Refused, match=words) as caught:
            sent(site, 3)
        assert "\n" not in str(caught.value)
    with pytest.raises((FileExistsError, Refused)):
        place.site.begin(30)


@pytest.mark.hole
def test_a_new_process_verifies_two_signatures_and_a_round_none(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A federation of n rounds costs no n² signatures."""
    verified: list[bytes] = []

    def counted(public: str, signature: str, message: bytes) -> bool:
        verified.append(message)
        return verifies(public, signature, message)

    monkeypatch.setattr(chain, "verifies", counted)
    site = place.site
    for round_num in (3, 4, 5):
        sent(site, round_num)
    assert len(verified) == 2  # of the first entry and the last
    assert len(entries_of(site)) == 11
    assert len(verified) == 13  # each one's


def test_a_site_without_a_log_answers_nothing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Refused, match=r"no log at .*log: was fedsvp site join \(or in"):
        sent(Site(tmp_path / "log", policy(**UPDATE_CLIP)), 1)


REQUESTS: dict[str, tuple[int, Any, str]] = {
    "replayed round": (2, None, "round 2 is over"),
    "earlier round": (1, None, "round 1 is over"),
    "round that was not planned": (6, None, "not one of the 5 rounds"),
    "NaN": (3, [leaf * np.float32("nan") for leaf in model()], "NaN or infinity"),
    "infinity": (3, [leaf * np.float32("inf") for leaf in model()], "NaN or infinity"),
    "misshapen": (3, [leaf.T for leaf in model()], r"of the shape \(4, 8\)"),
    "huge array": (
        3,
        [np.zeros((4, 10**6), "f4"), model()[1]],
        r"of the shape \(4, 8\)",
    ),
    "more arrays": (3, [*model(), model()[0]], "must have 2 arrays, got 3"),
    "other type": (3, [leaf.astype("f2") for leaf in model()], "must be float32"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_may_not_be_answered_changes_nothing(
    name: str, place: Place
) -> None:
    round_num, received, words = REQUESTS[name]
    before = place.log.read_bytes()
    with pytest.raises(Refused, match=words):
        sent(place.site, round_num, received=received)
    assert place.log.read_bytes() == before
    sent(place.site, 4)  # skipping a round costs nothing
    assert place.site.read().sums["uploads"] == [3]


def test_a_round_under_other_settings_than_those_promised_is_refused(
    place: Place,
) -> None:
    """Of a server whose job brings a policy of its own: weaker noise, more rounds."""
    for changes in ({"epsilon": 3.0}, {"num_rounds": 50}, {"l2_norm_clip": 9.0}):
        (changed,) = changes
        other = policy(**UPDATE_CLIP | changes)
        with pytest.raises(Refused, match=f"{changed} is .* and was"):
            sent(Site(place.log, other, witness=place.site.witness), 3)
        assert place.site.read().last_round == 2


def test_other_records_are_not_gone_on_with_and_the_server_is_not_told(
    place: Place,
) -> None:
    other = Site(place.log, witness=place.folder / "elsewhere", data="other records")
    for call in (other.read, lambda: sent(other, 3)):
        with pytest.raises(ValueError, match="records are not those") as caught:
            call()
        assert not isinstance(caught.value, Refused)
    assert "the records" not in place.log.read_text()
    key = (place.folder / "log.key").read_text()
    assert key not in place.log.read_text()


def test_a_folder_s_fingerprint_is_that_of_its_files(tmp_path: pathlib.Path) -> None:
    """Of their names below it and their content, wherever it stands."""
    folders = [tmp_path / name / "of" for name in ("one", "same", "named", "changed")]
    for folder, name, text in zip(folders, "aaba", ("1", "1", "1", "2"), strict=True):
        folder.mkdir(parents=True)
        for file in ("z", name):
            (folder / file).write_text(text)
    one, same, *others = map(fingerprint, folders)
    assert one == same and len({one, *others}) == 3


def test_the_noise_follows_the_ratio_that_a_training_hands_on(
    tmp_path: pathlib.Path,
) -> None:
    made = policy(mechanism="fedsva", contribution_release="raw")
    for ratio in (0.0, 0.25):
        site = Site(tmp_path / f"{ratio}", made)
        site.begin(30)
        handed = Trained(trained(model()), ratio)
        _, record = answer(site, model(), lambda told=handed: told, round_num=1)
        assert record["released_ratio"] == ratio


def test_a_clock_that_goes_back_decides_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((1999,) + (1,) * 8))
    sent(place.site, 3)
    assert entries_of(place.site)[-1].time.startswith("1999")
    with pytest.raises(Refused, match="round 3 is over"):
        sent(place.site, 3)


def test_a_log_that_its_witness_has_not_seen_yet_is_shown_to_it(place: Place) -> None:
    """A kill between log and witness; the upload did not leave."""
    witness = place.folder / "elsewhere" / "log.seen.json"
    before = witness.read_bytes()

    def killed() -> Trained:
        witness.write_bytes(before)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sent(place.site, 3, killed)
    sent(place.site, 4)
    assert place.site.read().sums["uploads"] == [4]


def test_a_torn_last_entry_was_never_reported_and_is_dropped(place: Place) -> None:
    whole = place.log.read_bytes()
    for torn in (b'{"body":{"sta', b"\0" * 50 + b'"}\n'):
        place.log.write_bytes(whole + torn)
        assert place.site.read().last_round == 2
        with place.site.opened():
            pass
        assert place.log.read_bytes() == whole


@pytest.mark.parametrize("left", [0, 1, 100])
def test_a_full_disk_sends_nothing_and_forgets_nothing(left: int, place: Place) -> None:
    """A limit on the size of files stands for a full disk."""
    before = place.log.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + left, hard))
    try:
        words = r"log .* cannot be written .* nothing is uploaded"
        with pytest.raises(OSError, match=words) as caught:
            sent(place.site, 3)
        assert "--resume" not in str(caught.value)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert place.log.read_bytes() == before
    sent(place.site, 3)


def test_a_round_that_a_full_disk_kept_from_its_witness_counts_and_is_not_sent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match=r"witness cannot be .* \(No space"):
            sent(place.site, 3)
    sent(place.site, 4)
    assert place.site.read().sums["uploads"] == [4]


def test_a_policy_stands_in_the_log_and_sites_may_promise_different_things(
    tmp_path: pathlib.Path,
) -> None:
    for name, epsilon in (("small", 3.3), ("large", 9.0)):
        made = Site(tmp_path / name, policy(**UPDATE_CLIP, total_epsilon=epsilon))
        made.begin(30)
    answered = {"small": 0, "large": 0}
    for name in answered:
        for round_num in range(1, 6):
            again = Site(tmp_path / name)  # which knows the path alone
            try:
                sent(again, round_num)
            except Refused as refusal:
                assert "would exceed this client's promise" in str(refusal)
            else:
                answered[name] += 1
        spent = again.read().account(again.policy).epsilon_spent("rdp")
        assert spent <= again.policy.promise.total_epsilon
    assert 0 < answered["small"] < answered["large"] == 5


def test_a_witness_s_key_that_another_process_just_made_is_taken(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Witness(tmp_path).public()
    monkeypatch.setattr(pathlib.Path, "iterdir", lambda self: iter(()))  # just before
    assert Witness(tmp_path).public() == made


def test_two_sites_of_one_name_have_not_one_witness(place: Place) -> None:
    other = Site(
        place.folder / "more" / "log",
        place.site.policy,
        witness=Witness(place.folder / "elsewhere"),
    )
    with pytest.raises(FileExistsError, match="its witness knows the site log"):
        other.begin(30)
    named = Site(
        other.path.with_name("north, log"), place.site.policy, witness=other.witness
    )
    named.begin(30)
    seen = json.loads(
        (place.folder / "elsewhere" / "north%2C%20log.seen.json").read_text()
    )
    assert seen["number"] == 1 and os.path.exists(named.path)


@pytest.mark.hole
@pytest.mark.parametrize("last", ["key", "log", "entry", "witness"])
def test_a_beginning_that_was_killed_says_how_to_begin_again(
    tmp_path: pathlib.Path, last: str
) -> None:
    """It left a key, and nothing said that this may go: "it has begun already"."""
    site = Site(tmp_path / "log", policy(**UPDATE_CLIP), witness=tmp_path / "elsewhere")
    site.begin(30)
    if last != "witness":
        (tmp_path / "elsewhere" / "log.seen.json").unlink()
    if last == "log":
        site.path.write_bytes(b"")
    if last == "key":
        site.path.unlink()
    again = Site(site.path, site.policy, witness=tmp_path / "elsewhere")
    with pytest.raises(FileExistsError, match="it has begun already") as refusal:
        again.begin(30)
    text = str(refusal.value)
    assert ("delete" in text) == (last != "witness")
    for path in (site.path, tmp_path / "log.key"):
        if last != "witness" and path.exists():
            assert str(path) in text.partition("delete")[2]
            path.unlink()
    if last != "witness":
        again.begin(30)
    sent(Site(site.path, witness=tmp_path / "elsewhere"), 1)


def test_a_site_that_has_answered_is_not_told_to_delete_its_log(place: Place) -> None:
    (place.folder / "elsewhere" / "log.seen.json").unlink()
    with pytest.raises(FileExistsError, match="it has begun already") as refusal:
        place.site.begin(30)
    assert "delete" not in str(refusal.value)


@pytest.mark.hole
def test_a_signal_leaves_no_key(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    site = Site(tmp_path / "log", policy(**UPDATE_CLIP))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Witness, "countersign", interrupted)
        site.begin(30)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["witness"]
    site.begin(30)


@pytest.mark.hole
def test_an_empty_key_of_a_witness_is_written_again(tmp_path: pathlib.Path) -> None:
    """A kill between its name and its 64 digits left a key that is damaged for good."""
    (tmp_path / "witness.key").touch()
    public = Witness(tmp_path).public()
    assert Witness(tmp_path).public() == public
