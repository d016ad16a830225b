"""A federation over tables: proposed once, joined by each, by command."""

import csv
import dataclasses
import json
import pathlib
import shutil
import tomllib
from typing import Any

import numpy as np
import pytest
from commands import Ended, assert_sentence, command
from deployed import example

from fedsvp_jax.deploy import Client, Refused, Site, tables
from fedsvp_jax.deploy.policy import protocol
from fedsvp_jax.federation import loading

HOSPITALS = 4
COUNTS = ("--num_examples=450", "--max_num_examples=120", "--total_epsilon=3")
COLUMN = '[client]\ncolumn = "hospital"\n'


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Tables, and a proposal whose schema was drafted of a table of all."""
    folder = tmp_path_factory.mktemp("dealt")
    example("flower_sums/deal.py").deal(folder, HOSPITALS)
    schema = folder / "schema.toml"
    schema.write_text(schema.read_text() + COLUMN)
    ended = proposed(folder, folder / "federation")
    assert ended.status == 0, ended
    return folder


def proposed(dealt: pathlib.Path, target: pathlib.Path, *flags: str) -> Ended:
    told = (f"--schema={dealt / 'schema.toml'}", f"--num_clients={HOSPITALS}")
    words = ("experiments.site", "propose", str(target))
    return command(*words, *told, *COUNTS, "--num_rounds=3", *flags)


def join(dealt: pathlib.Path, number: int, log: pathlib.Path) -> Ended:
    told = (f"--records={dealt / f'hospital-{number}.csv'}", f"--log={log}")
    return command("experiments.site", "join", str(dealt / "federation"), *told)


@pytest.mark.hole
def test_a_proposal_and_a_table_become_a_log_that_needs_nothing_else(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Without a clone of the repository and code there was no such federation."""
    log = tmp_path / "log"
    shown = join(dealt, 1, log)
    assert shown.status == 0, shown
    assert "total_epsilon: 3.0\n" in shown.stdout and "status: proved" in shown.stdout
    client = tables.table_client(log)
    server = tables.server_client(dealt / "federation")
    assert f"agreement: {server.policy.agreement}\n" in shown.stdout
    assert client.policy.agreement == server.policy.agreement
    for mine, theirs in zip(client.initial_arrays, server.initial_arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with (dealt / "hospital-1.csv").open() as file:
        rows = len(list(csv.DictReader(file)))
    assert client.num_examples == rows - round(rows / 10)  # test_fraction
    assert_sentence(join(dealt, 1, log), "it has begun already")
    ledger = command("experiments.ledger", str(log))
    assert ledger.status == 0 and "verdict: in order" in ledger.stdout, ledger


def test_a_model_is_scored_on_the_rows_that_did_not_train(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    place = dealt / "federation"
    assert join(dealt, 1, tmp_path / "log").status == 0
    client = tables.table_client(tmp_path / "log")
    server = tables.server_client(place)
    schema = server.policy.training.declared()
    model = server.trained_model(server.initial_arrays, 0)
    dataclasses.replace(model, schema=schema).save(tmp_path / "model.safetensors")
    told = (str(tmp_path / "model.safetensors"), f"--log={tmp_path / 'log'}")
    shown = command("experiments.site", "test", *told)
    assert shown.status == 0 and "AUC" in shown.stdout, shown
    assert "stay with you" in shown.stdout
    rows = loading.load_dataset(client.policy.training).test_labels
    with (dealt / "hospital-1.csv").open() as file:
        assert len(rows) + client.num_examples == len(list(csv.DictReader(file)))


@pytest.mark.hole
def test_what_a_log_was_begun_with_decides(
    dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Another table or schema is not gone on with; another proposal is noticed."""
    place, table = tmp_path / "federation", tmp_path / "own.csv"
    assert proposed(dealt, place, "--learning_rate=1").status == 0
    other = tables.read_policy(dealt / "federation").agreement
    assert tables.read_policy(place).agreement != other
    table.write_bytes((dealt / "hospital-2.csv").read_bytes())
    client = tables.table_client(tmp_path / "log", tables.read_policy(place, table))
    client.begin()
    schema, agreed = (place / "schema.toml").read_text(), client.policy.agreement
    (place / "schema.toml").write_text(schema.replace("[5.0, 30.0]", "[5.0, 31.0]"))
    assert Site(tmp_path / "log").policy.agreement != agreed
    with pytest.raises(ValueError, match="the records are not those"):
        tables.table_client(tmp_path / "log").site.read()
    (place / "schema.toml").write_text(schema)
    tables.table_client(tmp_path / "log").site.read()
    table.write_bytes((dealt / "hospital-3.csv").read_bytes())
    with pytest.raises(ValueError, match="the records are not those"):
        tables.table_client(tmp_path / "log").site.read()


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--noise_trust=nobody", "noise_trust must be secure_aggregation"),
        ("--max_num_examples=0", "state --max_num_examples"),
        ("--num_examples=1000", "num_examples must be those of all 4 sites together"),
        ("--colluders=4", "colluders must be fewer than cohort_size"),
        ("--num_clients=300", "cohort_size must be 3 or more, and below 256"),
    ],
)
def test_a_proposal_that_cannot_be_kept_is_one_sentence(
    flag: str, sentence: str, dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert_sentence(proposed(dealt, tmp_path / "federation", flag), sentence)
    assert not (tmp_path / "federation").exists()


def test_the_folder_holds_no_code_and_no_place_of_the_coordinators_records(
    dealt: pathlib.Path,
) -> None:
    place = dealt / "federation"
    names = ["pyproject.toml", "schema.toml", "settings.json"]
    assert sorted(path.name for path in place.iterdir()) == names
    app = tomllib.loads((place / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    for reference in app["components"].values():
        assert reference.startswith("fedsvp_jax.deploy.flower_tables:")
    assert "data_dir" not in json.loads((place / "settings.json").read_text())["config"]


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_trust": "nobody"},
        {"noise_sampler": "gaussian"},
        {"mechanism": "none"},
        {"clipping": "paper"},
        {"noise_multiplier": -1.0},
        {"l2_norm_clip": -1.0},
        {"l2_norm_clip": float("inf")},
        {"colluders": HOSPITALS},
        {"colluders": 0},
        {"local_steps": 2},
        {"total_accounting": "basic"},
        {"target_delta": 0.9, "delta": 0.9},
        {"plugin": "/tmp/code.py"},
        {"noise_examples_scale": 1e6},
        {"epsilon": 8.0},
    ],
    ids=str,
)
def test_a_coordinators_folder_that_was_edited_is_refused(
    changes: dict[str, Any], dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """`join` trusts nothing that `propose` has checked."""
    with pytest.raises((ValueError, Refused)):
        edited(dealt, tmp_path, changes)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 7, "paired_noise": True},
        {"noise_multiplier": 0.0},
        {"epsilon": 2.0},
        {"num_rounds": 10**6},
        {"l2_norm_clip": 1e6},
        {"class_weights": "1000000.0,1.0"},
        {"data_dir": "/etc"},
    ],
    ids=str,
)
def test_an_edited_folder_that_is_taken_keeps_the_promise(
    changes: dict[str, Any], dealt: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Its noise is secret, and the rounds that are answered cost ε = 3 at most."""
    client = edited(dealt, tmp_path, changes)
    policy = client.policy
    assert client.site.randomness.hides and policy.account.proved
    assert policy.settings()["total_epsilon"] == 3.0
    uploads, cost = policy.config.num_rounds, int(policy.allowance.costs[0])
    if cost:  # not all rounds can be answered
        uploads = int(policy.allowance.budget) // cost
    multiplier = policy.costliest(1)["noise_multiplier"]
    orders = 1 + np.exp(np.linspace(-6, 8, 20_001))
    losses = uploads * orders / (2 * multiplier**2) + np.log1p(-1 / orders)
    losses -= np.log(1e-5 * orders) / (orders - 1)
    assert losses.min() <= 3.0 * (1 + 1e-6)


def edited(dealt: pathlib.Path, place: pathlib.Path, changes: dict[str, Any]) -> Client:
    """A hospital that joined from a folder whose settings somebody changed."""
    shutil.copytree(dealt / "federation", place / "federation")
    file = place / "federation" / "settings.json"
    settings = json.loads(file.read_text())
    settings["config"] |= changes
    file.write_text(json.dumps(settings))
    policy = tables.read_policy(place / "federation", dealt / "hospital-1.csv")
    protocol(policy.settings())
    client = tables.table_client(place / "log", policy)
    client.begin()
    return client
