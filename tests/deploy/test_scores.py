"""Scores over all sites: one more secure sum, whose noise falls under the same ε."""

import copy
import html
import json
import math
import pathlib
import re
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import assert_sentence, command
from deployed import entries_of, example

pytest.importorskip("flwr")

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from scipy import special

from fedsvp_jax import run
from fedsvp_jax.core import prng
from fedsvp_jax.data.tables.characteristics import parts_of
from fedsvp_jax.deploy import (
    Policy,
    Refused,
    Seeded,
    Site,
    Trained,
    answer,
    flower_tables,
    tables,
)
from fedsvp_jax.deploy.chain import BEFORE, Key, new_entry
from fedsvp_jax.mechanisms.discrete_gaussian import (
    discrete_gaussian,
    seeded_words,
    step_variance,
)
from fedsvp_jax.mechanisms.grid import grid_step
from fedsvp_jax.report import ledger
from fedsvp_jax.run.published_scores import ScoreRelease, describe_scores

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # as flwr sets
HOSPITALS = 3
ROUNDS = 2
COUNTS = ("--num_examples=450", "--max_num_examples=160", "--total_epsilon=3")


def proposed(folder: pathlib.Path, *flags: str, clients: int = HOSPITALS) -> Any:
    words = ("experiments.site", "propose", str(folder / "federation"))
    told = (f"--schema={folder / 'schema.toml'}", f"--num_clients={clients}", *COUNTS)
    return command(*words, *told, f"--num_rounds={ROUNDS}", "--publish_scores", *flags)


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("dealt")
    example("flower_sums/deal.py").deal(folder, HOSPITALS)
    printed = proposed(folder, "--colluders=1").stdout
    assert f"(Flower's log counts {ROUNDS + 1} rounds: the last is this" in printed
    return folder


def step_of(release: ScoreRelease) -> float:
    """Of the grid, a power of two of 1 at most."""
    step = float(grid_step(release.grid, jnp.float32(release.share_std)))
    assert step <= 1 and math.log2(step).is_integer()
    return step


def sensitivity_of(policy: Policy) -> float:
    """Of the counts: what all shares but those of h colluders are z times."""
    shares = policy.config.cohort_size - policy.config.colluders
    return (
        math.sqrt(shares)
        * policy.score_release.share_std
        / policy.score_release.multiplier
    )


class Hospitals:
    """Sites of a proposal, and what carries the messages of Flower's app to them."""

    def __init__(
        self, dealt: pathlib.Path, folder: pathlib.Path, number_of_all: int = HOSPITALS
    ) -> None:
        self.folder, self.federation = folder, folder / "federation"
        self.policy, self.logs = tables.read_policy(dealt / "federation"), []
        self.dies_after = math.inf  # messages
        self.sent: list[Message] = []
        self.run = SimpleNamespace(run_id=1)
        self.federation.mkdir()
        for file in (dealt / "federation").iterdir():
            (self.federation / file.name).write_bytes(file.read_bytes())
        for number in range(number_of_all):
            made = tables.read_policy(self.federation, dealt / f"hospital-{number}.csv")
            self.logs.append(folder / f"log-{number}")
            tables.table_client(self.logs[-1], made).begin()
        app = flower_tables.client_app(lambda c: Seeded(7, int(c.node_config["id"])))
        self.app = app
        self.contexts = [
            Context(0, k + 1, {"log": str(log), "id": k}, RecordDict(), {})
            for k, log in enumerate(self.logs)
        ]

    def get_node_ids(self) -> list[int]:
        return list(range(1, len(self.logs) + 1))

    def send_and_receive(self, messages: Any, timeout: Any = None) -> list[Message]:
        del timeout
        replies = []
        for message in map(copy.deepcopy, messages):  # as a wire does
            node = message.metadata.dst_node_id - 1
            message.metadata.__dict__["_message_id"] = str(len(self.sent))
            if node == 0 and len(self.sent) >= self.dies_after:
                reply = Message(Error(code=3, reason="dead"), reply_to=message)
            else:
                reply = self.app(message, self.contexts[node])
            self.sent.append(reply)
            replies.append(reply)
        return replies

    def flwr_run(self, rounds: int = ROUNDS + 1) -> None:
        """`flwr run`."""
        settings = {"folder": str(self.federation), "rounds": rounds}
        context = Context(0, 0, {}, RecordDict(), settings | {"round-timeout": 1.0})
        flower_tables.main(self, context)  # type: ignore[arg-type]

    @property
    def scores(self) -> Any:
        return json.loads((self.federation / "scores.json").read_text())

    def site(self, number: int) -> Site:
        return Site(self.logs[number])


@pytest.fixture(scope="module")
def counted(dealt: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Hospitals:
    """A federation that ran to its end."""
    hospitals = Hospitals(dealt, tmp_path_factory.mktemp("counted"))
    hospitals.flwr_run()
    return hospitals


def test_the_last_sum_is_that_of_all_counts_and_of_all_shares_of_noise(
    dealt: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To the bit: counted here by hand, of each hospital's rows that did not train."""
    hospitals = Hospitals(dealt, tmp_path)
    hospitals.flwr_run()
    release = hospitals.policy.score_release
    step = step_of(release)
    wanted = np.zeros((2, 510), np.int64)
    server = tables.server_client(hospitals.federation)
    with np.load(hospitals.federation / "rounds" / "0003.npz") as saved:
        count, total = saved.values()
    model = run.load_model(hospitals.federation / "model.safetensors")
    for number in range(HOSPITALS):
        client = tables.table_client(hospitals.logs[number])
        counts = np.zeros((2, 510))
        rows = tables.table_rows(client.policy)
        chances = model.probabilities(rows.test_inputs).astype(float)
        for (no, yes), label in zip(chances, rows.test_labels, strict=True):
            odds = math.log(yes / no)
            share = (1 + odds / (4 + abs(odds))) / 2
            for level in range(1, 9):
                counts[label, 2**level - 3 + math.ceil(share * 2**level)] += 1
        # As a mean of gradients is put on the grid, so that rounding stays within Δ.
        kept = 1 - 1.000001 * step * (1020 / 8) ** 0.5
        wanted += np.rint(counts * kept / step).astype(int)
        key = Seeded(7, number).key(ROUNDS + 1, prng.Stream.SCORES)
        words = seeded_words(*jax.random.key_data(key).tolist())
        variance = step_variance(release.share_std, step)
        wanted += discrete_gaussian(variance, 1020, words).reshape(2, 510)
    assert count == HOSPITALS
    np.testing.assert_array_equal(total, wanted)
    np.testing.assert_allclose(hospitals.scores["counts"], wanted * step / kept, 1e-9)
    assert server.policy.agreement == hospitals.policy.agreement
    said = caplog.messages[-1]
    beginning, _, of_scores = said.partition(" test rows (a count with noise): ")
    assert beginning == f"3 of 3 hospitals, about {hospitals.scores['rows']}"
    assert of_scores == describe_scores(hospitals.scores) and "AUC " in of_scores
    line = "finished: 3 of 3 rounds, of which 3 opened a sum; the model is "
    assert caplog.messages[-2].startswith(line)


def test_all_sites_count_their_columns_in_the_same_sum(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "schema.toml").write_text((dealt / "schema.toml").read_text())
    ended = proposed(tmp_path, "--colluders=1", "--publish_columns")
    assert ended.status == 0, ended
    for table in dealt.glob("hospital-*.csv"):
        (tmp_path / table.name).write_bytes(table.read_bytes())
    (tmp_path / "run").mkdir()
    hospitals = Hospitals(tmp_path, tmp_path / "run")
    release = hospitals.policy.score_release
    features = hospitals.policy.training.declared().features
    assert sensitivity_of(hospitals.policy) == pytest.approx((8 + len(features)) ** 0.5)
    hospitals.flwr_run()
    of_sites = [tables.table_rows(hospitals.site(k).policy) for k in range(HOSPITALS)]
    wanted = np.sum(
        [
            np.eye(2)[rows.test_labels].T @ parts_of(features, rows.test_inputs)
            for rows in of_sites
        ],
        axis=0,
    )
    columns = hospitals.scores["columns"]
    counts = np.hstack([column["counts"] for column in columns.values()])
    assert list(columns) == list(features)
    page = tmp_path / "protection.html"
    ended = command("experiments.ledger", str(hospitals.logs[0]), f"--page={page}")
    assert ended.status == 0, ended
    assert page.read_text().count("model says of them or a column holds") == 2
    off = (counts - wanted) / hospitals.scores["noise_std"]
    assert np.abs(off).max() < 4.5 and off.std() == pytest.approx(1, abs=0.4)
    assert release.columns == features


def test_every_log_charges_the_count_once_and_its_ledger_says_so(
    counted: Hospitals, tmp_path: pathlib.Path
) -> None:
    promise = counted.policy.says()
    for number in range(HOSPITALS):
        site = counted.site(number)
        kinds = [entry.kind for entry in entries_of(site)]
        assert kinds == ["begin", *["charge", "upload"] * ROUNDS, "scores"]
        audited = ledger.audit(site.path, site.witness.path)
        assert not audited.problems and len(audited.rows) == ROUNDS
        assert audited.spent <= 3 * (1 + 1e-5)  # the count is not added
        (count,) = audited.counts
        assert count.epsilon == pytest.approx(3.0, rel=1e-5)
        assert promise["total_epsilon"] == 3
    page = tmp_path / "protection.html"
    ended = command("experiments.ledger", str(counted.logs[1]), f"--page={page}")
    assert ended.status == 0, ended
    assert "test rows: ε = 3 by one count of scores\n" in ended.stdout
    text = html.unescape(page.read_text())
    for sentence in (
        "ε = 3 by one count of scores",
        "one sum of all sites' counts of test rows, by class and by what the model",
        "this site was asked to count its test rows",
        "and was made once.",
        "No value of a row decides whether it is for the test; only the client",
    ):
        assert sentence in text, sentence
    # The page denied the test rows the ε that it had just promised them.
    assert "at most 65 are right, as above and against the same adversary" in text
    assert "Rows for the test have their own promise, above" in text
    assert "does not protect the rows for the test" not in text
    assert "a column holds" not in text and "--publish_columns" not in text
    for future in ("will count", "still to come", "No ε covers the rows for the test"):
        assert future not in text
    assert "So no score over all sites is computed" not in text


def test_the_file_says_what_the_sum_may_be_published_with(counted: Hospitals) -> None:
    scores, promise = counted.scores, counted.policy.says()
    assert (scores["total_epsilon"], scores["target_delta"]) == (3, 1e-5)
    for name in ("adversary", "status", "assumptions"):
        assert scores[name] == promise[name]
    assert scores["status"] == "proved"  # of SECRET; who seeds says so in its log
    assert scores["relation"] == "leave out one record for the test"


@pytest.mark.parametrize("clients", [3, 49])
def test_by_summation_the_noise_of_all_but_the_colluders_keeps_epsilon_at_delta(
    clients: int, dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """δ(ε) = Σ max(0, P(x) − e^ε P(x − Δ)) of the sum of K − h discrete Gaussians."""
    (tmp_path / "schema.toml").write_text((dealt / "schema.toml").read_text())
    few = () if clients == 3 else ("--num_examples=1188", "--max_num_examples=80")
    assert proposed(tmp_path, *few, clients=clients).status == 0
    policy = tables.read_policy(tmp_path / "federation")
    release, shares = policy.score_release, clients - policy.config.colluders
    size = 2**23
    steps = np.fft.fftfreq(size, 1 / size)
    deviation = release.share_std / step_of(release)
    assert deviation >= 4  # below, a sum is no discrete Gaussian
    one = np.exp(-((steps / deviation) ** 2) / 2)
    total = np.fft.ifft(np.fft.fft(one / one.sum()) ** shares).real.clip(0)
    moved = np.roll(total, round(8**0.5 / step_of(release)))
    assert steps[size // 2 - 1] > 9 * deviation * math.sqrt(shares)
    delta = np.maximum(total - math.exp(3) * moved, 0).sum()
    assert delta == pytest.approx(1e-5, rel=1e-4)  # as Δ is rounded to steps
    assert sensitivity_of(policy) == pytest.approx(8**0.5)


@pytest.mark.parametrize(
    ("flags", "schema", "sensitivity", "relation"),
    [
        ((), "", 1, "leave out one record for the test"),
        (("--relation=replace_one",), "", 2**0.5, "replace one record for the test"),
        ((), "person", 3, "leave out all rows of a person for the test"),
    ],
)
def test_the_sensitivity_is_of_the_relation_and_of_a_persons_rows(
    flags: tuple[str, ...],
    schema: str,
    sensitivity: float,
    relation: str,
    dealt: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    text = (dealt / "schema.toml").read_text()
    if schema:
        text = text.replace('unit = "row"', 'unit = "person"')
        text += '[person]\ncolumn = "who"\nrows = 3\n'
    (tmp_path / "schema.toml").write_text(text)
    assert proposed(tmp_path, *flags).status == 0
    policy = tables.read_policy(tmp_path / "federation")
    release = policy.score_release
    assert sensitivity_of(policy) == pytest.approx(sensitivity * 8**0.5)
    assert release.relation == relation
    assert "which rows are for the test follows none of" in policy.says()["assumptions"]


@pytest.mark.parametrize(("rows", "wide"), [(270, 0.1), (2000, 0.03)])
def test_forty_nine_hospitals_know_an_auc_as_well_as_the_docs_say(
    rows: int, wide: float, dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Half widths of docs/deploy.md: ε = 3, h = 16, AUC .64, a third in a class."""
    (tmp_path / "schema.toml").write_text((dealt / "schema.toml").read_text())
    few = ("--num_examples=1188", "--max_num_examples=80", "--colluders=16")
    assert proposed(tmp_path, *few, clients=49).status == 0
    release = tables.read_policy(tmp_path / "federation").score_release
    rng, sites, halves = np.random.default_rng(2), 49, []
    step, std = step_of(release), release.share_std * math.sqrt(sites)
    for _ in range(200):
        labels = rng.random(rows) < 0.34
        chances = special.expit(rng.normal(-0.7 + 0.5 * labels))
        both = np.stack([1 - chances, chances], 1)
        of_sites = np.array_split(both, sites), np.array_split(labels + 0, sites)
        counts = np.sum([*map(release.count_rows, *of_sites, of_sites[0])], 0)
        total = np.rint((counts + rng.normal(0, std, counts.shape)) / step)
        halves.append(np.ptp(release.estimate_scores(total, sites)["AUC"][1:]) / 2)
    assert abs(np.mean(halves) - wide) < 0.005, np.mean(halves)


@pytest.mark.parametrize(
    "counts",
    [
        ("--num_examples=4000", "--max_num_examples=400", "--total_epsilon=3"),
        ("--num_examples=9000", "--max_num_examples=900", "--total_epsilon=1"),
    ],
)
def test_a_proposal_says_how_well_an_auc_will_be_known(
    counts: tuple[str, ...], dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Nobody knew before the end that so few rows tell nothing."""
    schema = (dealt / "schema.toml").read_text()
    (tmp_path / "schema.toml").write_text(schema)
    sites, halves, rng = 16, [], np.random.default_rng(2)
    printed = proposed(tmp_path, *counts, "--colluders=4", clients=sites).stdout
    (numbers,) = re.findall(
        r"about (\d+) test rows, .* 0.7 will be about ±(.*),", printed
    )
    rows, half = int(numbers[0]), float(numbers[1])
    assert rows == round(int(counts[0].partition("=")[2]) / 9)  # a tenth is for it
    release = tables.read_policy(tmp_path / "federation").score_release
    std = release.share_std * math.sqrt(sites)
    every = release._replace(grid=release.grid._replace(norm=rows))
    for _ in range(20):
        labels = np.arange(rows) % 2
        chances = special.expit(0.2 * rng.normal(0.742 * labels))  # AUC .7
        both = np.stack([1 - chances, chances], 1)
        counted = every.count_rows(both, labels, both)
        total = (counted + rng.normal(0, std, counted.shape)) / release.step
        halves.append(np.ptp(release.estimate_scores(total, sites)["AUC"][1:]) / 2)
    assert np.mean(halves) == pytest.approx(half, rel=0.25)


def test_a_proposal_says_that_an_auc_will_not_be_known(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Its interval was 0 to 1, at the end of a training of all rows."""
    (tmp_path / "schema.toml").write_text((dealt / "schema.toml").read_text())
    printed = proposed(tmp_path).stdout
    assert "an AUC of 0.7 will tell hardly anything: more rows" in printed


def asked(hospitals: Hospitals, number: int, round_num: int) -> Any:
    """An answer of a hospital's own, without Flower."""
    site = hospitals.site(number)
    client = tables.table_client(site.path)
    rows = tables.table_rows(site.policy)
    received = client.initial_arrays

    def work() -> Any:
        if round_num <= ROUNDS:
            return client.train(received, round_num)
        chances = client.trained_model(received, 2).probabilities(rows.test_inputs)
        counts = site.policy.score_release.count_rows(
            chances, rows.test_labels, rows.test_inputs
        )
        return Trained([counts], clipped=True)

    return answer(client.site, received, work, round_num=round_num)


@pytest.fixture
def hospitals(dealt: pathlib.Path, tmp_path: pathlib.Path) -> Hospitals:
    return Hospitals(dealt, tmp_path)


def test_a_count_is_answered_once_and_nothing_after_it(hospitals: Hospitals) -> None:
    (share,), cost = asked(hospitals, 1, ROUNDS + 1)
    assert share.shape == (2, 510) and cost["epsilon_spent"] == {"pld": 3}
    written = hospitals.logs[1].read_bytes()
    for round_num, why in ((3, "is over"), (1, "is over"), (4, "one of the 3 rounds")):
        with pytest.raises(Refused, match=why):
            asked(hospitals, 1, round_num)
    assert hospitals.logs[1].read_bytes() == written
    assert_sentence(
        command("experiments.site", "abandon", f"--log={hospitals.logs[1]}"),
        "has answered a round",
    )


def test_a_count_that_was_killed_is_charged_and_never_made_up(
    hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ScoreRelease, "count_rows", killed)
    with pytest.raises(KeyboardInterrupt):
        asked(hospitals, 0, 3)
    monkeypatch.undo()
    assert [entry.kind for entry in entries_of(hospitals.site(0))] == [
        "begin",
        "scores",
    ]
    assert len(ledger.audit(hospitals.logs[0]).counts) == 1
    with pytest.raises(Refused, match="round 3 is over"):
        asked(hospitals, 0, 3)


def test_a_count_that_fails_leaves_as_noise(
    hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To answer otherwise would tell of the rows."""
    monkeypatch.setattr(ScoreRelease, "count_rows", lambda *_: 1 / 0)
    (share,), _ = asked(hospitals, 0, 3)
    release = hospitals.policy.score_release
    assert np.all(share) and np.abs(share).max() < 9 * release.share_std / step_of(
        release
    )


def test_a_log_that_cannot_be_written_sends_no_count(
    hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OSError("disk full")

    counted = []
    monkeypatch.setattr(ScoreRelease, "count_rows", lambda *_: counted.append(1))
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="nothing is uploaded"):
        asked(hospitals, 0, 3)
    assert not counted


def test_a_count_that_nobody_agreed_to_is_refused(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "schema.toml").write_text((dealt / "schema.toml").read_text())
    asked_for = proposed(tmp_path, "--nopublish_scores")
    assert asked_for.status == 0 and "Flower's log" not in asked_for.stdout
    made = tables.read_policy(tmp_path / "federation", dealt / "hospital-1.csv")
    assert made.agreement != tables.read_policy(dealt / "federation").agreement
    client = tables.table_client(tmp_path / "log", made)
    client.begin()
    with pytest.raises(Refused, match="is not one of the 2 rounds"):
        answer(client.site, client.initial_arrays, lambda: None, round_num=3)  # type: ignore[arg-type,return-value]


def test_a_ledger_names_a_second_count(hospitals: Hospitals) -> None:
    asked(hospitals, 0, 3)
    site = hospitals.site(0)
    key, before, lines = Key(site.path.with_name("log-0.key")), BEFORE, []
    begin, count = entries_of(site)
    for kind, body in (("begin", begin.body), *[("scores", count.body)] * 2):
        before, line = new_entry(key, before, kind, body)
        lines.append(line)
    site.path.write_bytes(b"".join(lines))
    problems = " ".join(ledger.audit(site.path).problems)
    assert "round 3 came after round 3" in problems
    assert "and 3 was promised" in problems


@pytest.mark.parametrize(
    ("change", "flags", "sentence"),
    [
        (('unit = "row"', 'unit = "client"'), (), "publish_scores hides one test row"),
        (("", ""), ("--noise_bits=12",), "noise_bits must be"),
    ],
)
def test_a_proposal_whose_epsilon_would_not_cover_test_rows_is_refused(
    change: tuple[str, str],
    flags: tuple[str, ...],
    sentence: str,
    dealt: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    text = (dealt / "schema.toml").read_text()
    (tmp_path / "schema.toml").write_text(text.replace(*change))
    assert_sentence(proposed(tmp_path, *flags), sentence)
    assert not (tmp_path / "federation").exists()


def test_a_site_of_its_own_training_publishes_no_scores(tmp_path: pathlib.Path) -> None:
    words = ("--num_examples=300", "--min_num_examples=100", "--total_epsilon=8")
    rows = ("--mechanism=gaussian", "--clipping=update_clip", "--relation=add_remove")
    ended = command(
        *("experiments.site", "init", f"--log={tmp_path / 'log'}", *words, *rows),
        *("--solve=noise", "--num_rounds=2", "--delta=1e-6", "--publish_scores"),
    )
    assert_sentence(ended, "publish_scores needs the secure sums")


def test_a_count_that_opens_no_sum_is_spent_and_not_asked_again(
    hospitals: Hospitals, caplog: pytest.LogCaptureFixture
) -> None:
    """One of three leaves in it, and with h = 1 nobody may."""
    hospitals.flwr_run(rounds=1)
    first = len(hospitals.sent)
    hospitals.dies_after = 2 * first + 2 * HOSPITALS  # rounds have `first` messages
    hospitals.flwr_run()
    line = "finished: 3 of 3 rounds, of which 2 opened a sum; the model is "
    assert caplog.messages[-2].startswith(line)
    assert caplog.messages[-1].startswith("no scores: the count of test rows failed")
    assert not (hospitals.federation / "scores.json").exists()
    kinds = [[e.kind for e in entries_of(hospitals.site(k))] for k in range(3)]
    assert [of.count("scores") for of in kinds] == [0, 1, 1]
    hospitals.dies_after = math.inf
    asked_before = len(hospitals.sent)
    hospitals.flwr_run()
    assert len(hospitals.sent) == asked_before
    assert (hospitals.federation / "model.safetensors").exists()


def test_a_server_that_was_killed_after_the_sum_writes_the_same_scores(
    counted: Hospitals,
) -> None:
    file = counted.federation / "scores.json"
    before, asked_before = file.read_bytes(), len(counted.sent)
    file.unlink()
    counted.flwr_run()
    assert file.read_bytes() == before and len(counted.sent) == asked_before


def test_a_hospital_that_is_away_is_left_out_of_the_scores(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    example("flower_sums/deal.py").deal(tmp_path, 4)
    assert proposed(tmp_path, "--colluders=2", clients=4).status == 0
    (tmp_path / "run").mkdir()
    hospitals = Hospitals(tmp_path, tmp_path / "run", 4)
    hospitals.dies_after = 2 * 16  # in the count
    hospitals.flwr_run()
    assert caplog.messages[-1].startswith("3 of 4 hospitals, about ")
    scores, release = hospitals.scores, hospitals.policy.score_release
    std = release.share_std * math.sqrt(3)
    assert scores["noise_std"] == pytest.approx(std, rel=1e-3)
