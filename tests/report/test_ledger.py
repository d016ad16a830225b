"""The auditor's view of a site's log: what is verified, added up, and named."""

import json
import math
import pathlib
from typing import Any

import numpy as np
import pytest
from deployed import ROWS, SUMS, UPDATE_CLIP, entries_of, model, policy, sent, trained
from scipy import stats

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.deploy import (
    Seeded,
    Site,
    Trained,
    answer,
    begin_round,
    make_policy,
)
from fedsvp_jax.deploy.chain import BEFORE, Entry, Key, new_entry
from fedsvp_jax.report import headline, ledger
from fedsvp_jax.report import page as pages

OF_THE_LOG = ("state", "witnessed")  # which `Site.write` adds to a body
GUIDED = {"mechanism": "fedsva", "contribution_release": "randomized_response"}


def answered(folder: pathlib.Path, rounds: int = 3, **changes: Any) -> Site:
    """A site that answered rounds, then one more that was never sent."""
    site = Site(folder / "log", policy(**changes or UPDATE_CLIP))
    site.begin(30)
    for round_num in range(1, rounds + 1):
        sent(site, round_num, lambda: Trained(trained(model()), 0.5))
    begin_round(site, model(), round_num=rounds + 1)
    return site


def rewritten(
    site: Site, promise: dict[str, Any], kind: dict[str, str] | None = None
) -> Site:
    """The site, whose own key signed another promise, or entries of another kind."""
    key, before, lines = Key(site.path.with_name("log.key")), BEFORE, []
    for entry in entries_of(site):
        body = dict(entry.body)
        if before is BEFORE:
            body["promise"] = body["promise"] | promise
        name = (kind or {}).get(entry.kind, entry.kind)
        before, line = new_entry(key, before, name, body)
        lines.append(line)
    site.path.write_bytes(b"".join(lines))
    return site


def facts(audited: ledger.Ledger) -> dict[str, str]:
    return {fact["name"]: fact["value"] for fact in headline.cells("facts", audited)}


def witness_of(site: Site) -> pathlib.Path:
    return site.path.with_name("witness") / "log.seen.json"


@pytest.mark.parametrize("changes", [{}, GUIDED], ids=str)
def test_another_accountant_adds_up_what_the_site_has_spent(
    changes: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    site = answered(tmp_path, **changes)
    found = ledger.audit(site.path, witness_of(site))
    assert not found.problems and len(found.rows) == 4
    assert [bool(row.sent) for row in found.rows] == [True] * 3 + [False]
    own = site.read().account(site.policy).epsilon_spent("rdp")
    assert found.spent == pytest.approx(own, rel=1e-5)
    for row in found.rows[:3]:
        assert row.recorded == pytest.approx(row.epsilon, rel=1e-5)


@pytest.mark.parametrize("changes", [UPDATE_CLIP, SUMS], ids=["alone", "sum"])
def test_the_auditor_adds_up_a_promise_by_pld_as_one_gaussian(
    changes: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """Of four uploads; by RDP they spend more, and the log would break its promise."""
    promise = {"total_epsilon": 4.0, "total_accounting": "pld"}
    promise |= {"solve": "noise", "num_rounds": 4}
    site = answered(tmp_path, **changes | promise)
    found = ledger.audit(site.path, witness_of(site))
    assert not found.problems and len(found.rows) == 4
    mu = sum(row.noise_multiplier**-2 for row in found.rows) ** 0.5
    far = math.exp(found.spent) * stats.norm.cdf(-mu / 2 - found.spent / mu)
    delta = stats.norm.cdf(mu / 2 - found.spent / mu) - far
    assert delta == pytest.approx(1e-5, rel=1e-4)
    assert found.spent == pytest.approx(4.0, rel=1e-5)
    assert site.read().account(site.policy).epsilon_spent("rdp") > 4.2
    uploads = [entry.body for entry in entries_of(site) if entry.kind == "upload"]
    assert {"pld", "rdp"} < {*uploads[-1]["epsilon_spent"]}
    assert uploads[-1]["status"]["pld"] == "proved"


@pytest.mark.hole
@pytest.mark.parametrize(
    ("name", "value"),
    [("target_delta", True), ("target_delta", 1.5), ("release_epsilon", "nan")],
)
def test_a_promise_without_a_delta_below_1_is_no_site_s(
    name: str, value: Any, tmp_path: pathlib.Path
) -> None:
    """The site signed it, and its ε was 0 and in order."""
    site = rewritten(answered(tmp_path, rounds=1), {name: value})
    with pytest.raises(ValueError, match="is signed, but is no site's log"):
        ledger.audit(site.path)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "certified"),
        ("adversary", "everybody, for ever"),
        ("relation", "replace all records of all clients"),
        ("endorsed by", "the regulator"),
        ("total_accounting", "gdp"),
        ("num_rounds", "a few"),
        ("max_uploads", True),
    ],
)
def test_a_promise_in_words_that_no_version_writes_is_refused(
    name: str, value: Any, tmp_path: pathlib.Path
) -> None:
    """The auditor's page showed them beside the verdict "in order"."""
    site = rewritten(answered(tmp_path, rounds=1), {name: value})
    with pytest.raises(ValueError, match=f"log is signed.*no version promises {name}"):
        ledger.audit(site.path)


@pytest.mark.hole
def test_an_entry_of_a_kind_that_no_version_writes_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    """The auditor took it for a charge."""
    site = rewritten(answered(tmp_path, rounds=1), {}, kind={"upload": "refund"})
    with pytest.raises(ValueError, match="no version writes an entry of the kind 'ref"):
        ledger.audit(site.path)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "changes",
    [
        {"clipping": "paper", "max_uploads": 2},
        {"clipping": "weight_clip", "total_epsilon": 9.0},
        {"clipping": "update_clip"},
        {"clipping": "attribute_records", "total_epsilon": 20.0, "solve": "noise"},
        SUMS,
        GUIDED,
    ],
    ids=str,
)
def test_every_promise_of_a_policy_is_in_known_words(
    changes: dict[str, Any], relation: str
) -> None:
    made = policy(
        **UPDATE_CLIP
        | {"relation": relation, "calibration": "classical", "epsilon": 0.9}
        | changes
    )
    first = Entry(1, "begin", "", {"promise": made.says()}, "", "")
    ledger._check_words([first])
    theirs = made.says() | {"relation": "a plugin's own", "status": "nominal"}
    ledger._check_words([first._replace(body={"promise": theirs})])


@pytest.mark.hole
@pytest.mark.parametrize("rows_per_person", [None, 3])
@pytest.mark.parametrize("summed", [{}, SUMS])
def test_the_auditor_reads_the_log_of_a_site_that_clips_single_rows(
    summed: dict[str, Any], rows_per_person: int | None
) -> None:
    """`fedsvp ledger` called every hospital's log no site's log."""
    sizes = {"dataset": "digits", "num_clients": 5, "cohort_size": 5, "num_rounds": 5}
    config = ExperimentConfig(**sizes | {"num_hbc_clients": 0} | summed | ROWS)
    made = make_policy(config, min_num_examples=20, rows_per_person=rows_per_person)
    ledger._check_words([Entry(1, "begin", "", {"promise": made.says()}, "", "")])


@pytest.mark.hole
def test_a_log_that_its_node_goes_on_with_while_it_is_read_is_in_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The witness had seen an entry more than what had been read: NOT IN ORDER."""
    site = answered(tmp_path)
    whole = site.path.read_bytes()
    readings = [b"".join(whole.splitlines(keepends=True)[:-2])]
    read = pathlib.Path.read_bytes

    def read_bytes(path: pathlib.Path) -> bytes:
        return readings.pop() if path == site.path and readings else read(path)

    monkeypatch.setattr(pathlib.Path, "read_bytes", read_bytes)
    audited = ledger.audit(site.path, witness_of(site))
    assert not readings and not audited.problems
    assert audited.entries == len(entries_of(site))


@pytest.mark.hole
def test_a_log_is_json_without_nan_and_infinity(tmp_path: pathlib.Path) -> None:
    """Python alone reads those; of a δ that was NaN the auditor said ε = 0."""
    site = answered(tmp_path, rounds=1)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    for line in site.path.read_bytes().splitlines():
        json.loads(line, parse_constant=refuse)
    key = Key(site.path.with_name("log.key"))
    with pytest.raises(ValueError, match="JSON"):
        new_entry(key, BEFORE, "begin", {"promise": {"target_delta": float("nan")}})


def test_a_tampered_entry_is_named(tmp_path: pathlib.Path) -> None:
    site = answered(tmp_path)
    lines = site.path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"kind":"upload"', b'"kind":"charge"')
    site.path.write_bytes(b"".join(lines))
    found = ledger.audit(site.path)
    assert found.problems == [
        "entry 5 of log was changed: its signature is not the site's"
    ]
    content = {"ledger": found, "budgets": ()}
    page = pages.write(tmp_path / "page.html", "ledger.html", **content).read_text()
    assert "not in order" in page and found.problems[0].split("'")[0] in page
    assert "full precision" not in page  # there are no JSON files beside it
    assert "http://" not in page.split("<script>")[0]
    # "ε spent: 0" and "every ε is: proved" stood beside it.
    said = facts(found)
    unknown = "not known, since the log is not in order"
    assert said["every ε is"] == said["ε spent, added up anew"] == unknown


def test_an_entry_that_the_sites_own_key_rewrote_was_not_seen_by_the_witness(
    tmp_path: pathlib.Path,
) -> None:
    """Whoever has the site's key alone signs and links anything."""
    site = answered(tmp_path)
    entries = entries_of(site)
    key, lines = Key(tmp_path / "log.key"), site.path.read_bytes().splitlines(True)[:2]
    before = entries[1]
    for entry in entries[2:]:
        body = entry.body
        if entry.number == 3:
            body = body | {"noise_multiplier": 100.0}
        before, line = new_entry(key, before, entry.kind, body)
        lines.append(line)
    site.path.write_bytes(b"".join(lines))
    found = ledger.audit(site.path, witness_of(site))
    assert "entry 3 of log was not seen by the witness" in found.problems
    assert "entry 8 of log is not the one that its witness has seen" in found.problems


def test_what_is_not_in_order_is_said(tmp_path: pathlib.Path) -> None:
    site = answered(tmp_path)
    witness = witness_of(site)
    assert ledger.audit(site.path, site_key="ab").problems == [
        "log is signed by another key than ab"
    ]
    lines = site.path.read_bytes().splitlines(keepends=True)
    site.path.write_bytes(b"".join(lines[:-1]))
    assert ledger.audit(site.path, witness).problems == [
        "the witness has seen 8 entries of log, which has 7"
    ]
    witness.write_text("{}")
    assert "is damaged or was changed" in ledger.audit(site.path, witness).problems[0]
    for content in (b"", b"[]\n", b"\xff\n", b"[" * 10**5 + b"\n"):
        site.path.write_bytes(content)
        with pytest.raises(ValueError, match="log"):
            ledger.audit(site.path)


@pytest.mark.hole
def test_a_round_that_was_sent_twice_is_counted_twice_and_named(
    tmp_path: pathlib.Path,
) -> None:
    """Its second upload took the first one's place, and the ledger was in order."""
    site = answered(tmp_path)
    *_, charge, upload, _ = entries_of(site)
    for entries in ((charge, upload), (upload,)):
        before = ledger.audit(site.path, witness_of(site))
        with site.opened() as log:
            for entry in entries:
                body = {n: v for n, v in entry.body.items() if n not in OF_THE_LOG}
                log.write(entry.kind, log.state, body)
        found = ledger.audit(site.path, witness_of(site))
        assert found.spent > before.spent
    assert found.problems[:3] == [
        "round 3 was sent and never charged",
        "round 3 came after round 4",
        "round 3 came after round 3",
    ]


def test_a_promise_that_is_not_kept_is_named() -> None:
    rows = [
        ledger.Row(n, "then", "", 1.0, epsilon, recorded)
        for n, epsilon, recorded in ((1, 2.0, 2.0), (2, 3.1, 2.9), (3, 9e9, 3.0))
    ]
    promise = {"total_epsilon": 3.0, "max_uploads": 2}
    assert ledger._sum_problems(promise, rows) == [
        "round 2: ε is 3.1 by then, and 3 was promised",
        "round 2: the site recorded ε = 2.9, and its uploads add up to 3.1",
        "3 uploads are charged, and 2 at most were promised",
    ]


@pytest.mark.hole
def test_seeded_noise_and_a_clock_that_went_back_are_noted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = answered(tmp_path, 1)
    before = facts(ledger.audit(site.path))["every ε is"]
    assert before == "proved"
    clock = "fedsvp_jax.deploy.chain.time.strftime"
    monkeypatch.setattr(clock, lambda *_: "1999-01-01T00:00:00Z")
    update = Trained(trained(model()))
    site.randomness = Seeded(0, 0)
    answer(site, model(), lambda: update, round_num=3)
    found = ledger.audit(site.path, witness_of(site))
    assert "noise was seeded: every ε is nominal" in found.notes
    assert facts(found)["every ε is"] == "nominal"
    assert "the site's clock went back before entry 5" in found.notes


def test_no_changed_byte_of_a_log_goes_unnoticed(tmp_path: pathlib.Path) -> None:
    """It is named, or the file is refused in a sentence."""
    site, rng = answered(tmp_path, 1), np.random.default_rng(0)
    whole = site.path.read_bytes()
    for place in rng.integers(0, len(whole), 200):
        content = bytearray(whole)
        content[place] ^= rng.integers(1, 256)
        site.path.write_bytes(content)
        try:
            found = ledger.audit(site.path)
        except ValueError:
            continue
        assert found.problems


@pytest.mark.hole
def test_without_a_witness_the_verdict_says_what_it_cannot_see(
    tmp_path: pathlib.Path,
) -> None:
    """Of a log without its last two entries it was "in order"; a folder was no file."""
    site, cut = answered(tmp_path), tmp_path / "cut" / "log"
    cut.parent.mkdir()
    lines = site.path.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[:-2]))
    by_log = facts(ledger.audit(cut))["verdict"]
    assert by_log.startswith("in order as far as the log alone tells; only the witness")
    folder = witness_of(site).parent
    for path, verdict in ((cut, "not in order"), (site.path, "in order")):
        assert facts(ledger.audit(path, folder))["verdict"] == verdict
