"""Scores over all sites: one more secure sum, whose noise falls under the same ε."""

import copy
import html
import json
import math
import pathlib
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from commands import assert_sentence, command
from deployed import entries_of, example

pytest.importorskip("flwr")

from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from scipy import stats

from fedsvp_jax import run
from fedsvp_jax.core import prng
from fedsvp_jax.deploy import Policy, Refused, Seeded, Site, flower_tables, tables
from fedsvp_jax.deploy.scores import ScoreRelease
from fedsvp_jax.mechanisms.discrete_gaussian import (
    discrete_gaussian,
    seeded_words,
    step_variance,
)
from fedsvp_jax.report import ledger

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
    assert proposed(folder, "--colluders=1").status == 0
    return folder


class Hospitals:
    """Sites of a proposal, and what carries the messages of Flower's app to them."""

    def __init__(self, dealt: pathlib.Path, folder: pathlib.Path) -> None:
        self.folder, self.federation = folder, folder / "federation"
        self.policy, self.logs = tables.read_policy(dealt / "federation"), []
        self.dies_after = math.inf  # messages
        self.sent: list[Message] = []
        self.run = SimpleNamespace(run_id=1)
        self.federation.mkdir()
        for file in (dealt / "federation").iterdir():
            (self.federation / file.name).write_bytes(file.read_bytes())
        for number in range(HOSPITALS):
            made = tables.read_policy(
                self.federation, dealt / f"hospital-{number}.csv"
            )
            self.logs.append(folder / f"log-{number}")
            tables.table_client(self.logs[-1], made).begin()
        app = flower_tables.client_app(lambda c: Seeded(7, int(c.node_config["id"])))
        self.app = app
        self.contexts = [
            Context(0, k + 1, {"log": str(log), "id": k}, RecordDict(), {})
            for k, log in enumerate(self.logs)
        ]

    def get_node_ids(self) -> list[int]:
        return list(range(1, HOSPITALS + 1))

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

    def flwr_run(self, rounds: int = ROUNDS) -> None:
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
def counted(
    dealt: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Hospitals:
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
    release = hospitals.policy.scores
    assert release is not None
    unit = round(1 / release.step)
    wanted = np.zeros((2, 20), np.int64)
    server = tables.server_client(hospitals.federation)
    with np.load(hospitals.federation / "rounds" / "0003.npz") as saved:
        count, total = saved.values()
    model = run.load_model(hospitals.federation / "model.safetensors")
    for number in range(HOSPITALS):
        client = tables.table_client(hospitals.logs[number])
        rows = tables.table_rows(client.policy)
        chances = model.probabilities(rows.test_inputs)[:, 1]
        for chance, label in zip(chances, rows.test_labels, strict=True):
            (place,) = [
                k for k in range(20) if np.float32(k / 20) < chance <= (k + 1) / 20
            ]
            wanted[label, place] += unit
        key = Seeded(7, number).key(ROUNDS + 1, prng.Stream.SCORES)
        words = seeded_words(*jax.random.key_data(key).tolist())
        variance = step_variance(release.share_std, release.step)
        wanted += discrete_gaussian(variance, 40, words).reshape(2, 20)
    assert count == HOSPITALS
    np.testing.assert_array_equal(total, wanted)
    np.testing.assert_array_equal(hospitals.scores["counts"], wanted * release.step)
    assert server.policy.agreement == hospitals.policy.agreement
    said = caplog.messages[-1]
    assert said.startswith("all 3 hospitals, about ") and "AUC 0." in said


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
        "one sum of all sites' counts of test rows, by class and by what the model says",
        "The secure sum of these counts",
        "Which rows are for the test does not follow what they hold",
    ):
        assert sentence in text, sentence
    assert "No ε covers the rows for the test" not in text
    assert "So no score over all sites is computed" not in text


def test_the_file_says_what_the_sum_may_be_published_with(counted: Hospitals) -> None:
    scores, promise = counted.scores, counted.policy.says()
    assert (scores["epsilon"], scores["delta"]) == (pytest.approx(3), 1e-5)
    for name in ("adversary", "status", "assumptions"):
        assert scores[name] == promise[name]
    assert scores["status"] == "proved"  # of SECRET; who seeds says so in its log
    assert scores["relation"] == "leave one record for the test out of the counts"
