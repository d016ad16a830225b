"""`--attack=membership`, as typed: what was learned by heart tells who taught it."""

import csv
import pathlib
import re
import shutil

import numpy as np
import pytest
from commands import assert_resumed, assert_sentence, command, results, succeeds
from numpy.random import default_rng
from scipy.stats import beta
from sklearn import datasets
from small_runs import read_rows

from experiments import printed
from experiments.attack import SETTINGS, membership
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.files import read_json, write_json
from fedsvp_jax.data import sources
from fedsvp_jax.data.tables.table import from_table
from fedsvp_jax.federation import federated_data

TINY = (
    "experiments.attack",
    "--attack=membership",
    "--membership_shadows=6",
    "--membership_examples=60",
    "--membership_epsilons=0.01",
    "--num_rounds=6",
)


@pytest.mark.slow
def test_the_over_trained_leak_and_small_epsilon_does_not(tmp_path: pathlib.Path):
    folder = tmp_path / "run"
    done = succeeds(*TINY, f"--output_dir={folder}")
    assert re.search(r"gaussian \(ε = 0.01 per.*lira", done.stdout)
    assert "it allows" in done.stdout and "\nε of the run: " in done.stdout
    last = {(row["mechanism"], row["attack"]): row for row in results(folder)["rows"]}
    assert last["none", "lira"]["status"] is None
    assert last["gaussian", "lira"]["status"] == "nominal"
    assert last["none", "loss"]["accuracy_members"] > 0.9
    for attack in ("loss", "lira"):
        assert last["none", attack]["auc"] >= 0.65
        row = last["gaussian", attack]
        assert row["auc_low"] < 0.5 < row["auc_high"]
    rates, curve = results(folder)["false_positive_rates"], row["tpr_at"]
    assert len(rates) == len(curve) and sorted(curve) == curve and rates[-1] == 1
    assert_resumed(TINY, folder, "gaussian")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Some of its clients learned random labels by heart; others never trained."""
    place = tmp_path_factory.mktemp("own")
    x, rng = datasets.load_digits().data[:600].astype(np.float32), default_rng(0)
    x, y = x / 16, rng.integers(10, size=600)
    given = {"x_train": x[:300], "y_train": y[:300], "x_test": x[300:]}
    np.savez(place / "given.npz", **given, y_test=y[300:])
    np.savez(place / "other.npz", **given, y_test=y[299:-1])
    succeeds(
        "experiments.train",
        *("--dataset=npz", f"--data_dir={place / 'given.npz'}", "--classes=10"),
        *("--model=mlp", "--mechanism=none", "--partition=iid", "--train_fraction=1"),
        *("--num_clients=8", "--num_hbc_clients=0", "--cohort_size=2"),
        *("--num_attributes=1", "--num_rounds=2", "--local_epochs=60"),
        *("--batch_size=10", "--learning_rate=0.5", "--l2_norm_clip=inf"),
        *("--noreport", f"--output_dir={place / 'run'}"),
    )
    return place / "run"


def test_a_runs_own_model_is_attacked(run: pathlib.Path, tmp_path: pathlib.Path):
    clients = {row["client"] for row in read_rows(run / "clients.jsonl")}
    assert len(clients) < 8
    attacked = ("experiments.attack", "--attack=membership", f"--run={run}")
    done = succeeds(*attacked, f"--output_dir={tmp_path / 'out'}")
    assert "\nThe attacker sees the last round's global model, as every" in done.stdout
    assert "piece 0 of 1" in done.stderr and "piece 1 of 1" in done.stderr
    (row,) = results(tmp_path / "out")["rows"]
    assert (row["attack"], row["status"]) == ("loss", None)
    assert row["auc_low"] > 0.6 and row["test_accuracy"] < 0.3
    assert row["accuracy_members"] > row["accuracy_others"] + 0.35  # of all 8, .17
    with (tmp_path / "out" / "table.csv").open(newline="") as file:
        (cells,) = csv.DictReader(file)
    assert (cells["attack"], cells["epsilon"]) == ("loss", "")
    assert float(cells["tpr_0.01"]) == pytest.approx(row["tpr"]["0.01"])
    assert float(cells["auc_low"]) == pytest.approx(row["auc_low"])
    assert_resumed(attacked, tmp_path / "out", "run")


def test_the_ceiling_is_against_who_sees_the_model_and_for_all_copies(
    run: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It was the server's, of one copy: the attacker sees the last model alone."""
    copied = shutil.copytree(run, tmp_path / "run")
    summary = read_json(copied / "summary.json")
    claim = {"method": "rdp", "delta": 1e-5, "status": "proved", "assumptions": ""}
    summary |= {"adversary": "server", "relation": "one", "risk": {}}
    summary["guarantees"] = [
        claim | {"adversary": who, "relation": of, "copies": copies, "epsilon": epsilon}
        for who, of, copies, epsilon in (
            ("server", "one", 1, 4.0),
            ("outside observer of the final model", "one", 1, 1.0),
            ("outside observer of the final model", "one, 3 copies", 3, 2.0),
        )
    ]
    write_json(copied / "summary.json", summary)
    attacked = ("experiments.attack", "--attack=membership", f"--run={copied}")
    done = succeeds(*attacked, f"--output_dir={tmp_path / 'out'}")
    (row,) = results(tmp_path / "out")["rows"]
    assert (row["epsilon"], row["relation"]) == (2.0, "one, 3 copies")
    assert row["adversary"] == "outside observer of the final model"
    head = done.stdout.split("`")[0].split()  # a cell folds where the table is narrow
    assert "1" in head and "0.1" not in head
    named, count = round(row["tpr"]["0.01"] * row["members"]), row["members"]
    (cells,) = printed.filled_rows("attack_membership.txt", [row], run=str(copied))
    assert count % 20 == row["others"] % 20 == 0  # which nothing said
    assert "members, others that were tried, in 20 equal groups" in cells
    assert all(f"{number}" in done.stdout for number in (count, row["others"]))
    # Clopper and Pearson's ends are quantiles of Beta distributions.
    high = beta.ppf(0.975, named + 1, count - named)
    assert row["tpr_high"]["0.01"] == pytest.approx(high)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--attack=membership --run=RUN --num_rounds=3", "num_rounds must be left out"),
        ("--attack=membership --run=RUN --mechanisms=none", "mechanisms must be left"),
        (
            "--attack=membership --run=RUN --membership_shadows=9",
            "membership_shadows must be left out: --run attacks the one model of a run "
            "as it is, by the loss threshold; LiRA needs models with and without",
        ),
        ("--attack=acgan --run=RUN", "it trains federations of its own; --config=RUN"),
        ("--attack=membership --run=RUN --data_dir=OTHER", "had other data"),
        ("--attack=membership --run=nowhere", "nowhere/config.json: No such file"),
    ],
)
def test_a_run_is_attacked_as_it_is(
    run: pathlib.Path, tmp_path: pathlib.Path, flags: str, message: str
) -> None:
    words = flags.replace("=RUN", f"={run}", 1)
    words = words.replace("OTHER", str(run.with_name("other.npz"))).split()
    ended = command("experiments.attack", *words, f"--output_dir={tmp_path / 'out'}")
    sentence = ended.stderr.removeprefix("\rpiece 0 of 1, 00:00<?\n")
    assert_sentence(ended._replace(stderr=sentence), message)
    assert not (tmp_path / "out" / "results.json").exists()


def test_about_half_of_the_examples_are_members_and_each_run_has_others():
    config = resolve(
        ExperimentConfig(**{**SETTINGS["membership"]["defaults"], "dataset": "digits"})
    )
    data = membership.subset(sources.load("digits"), 100, 0.2, seed=0)
    configs = [membership.dataclasses.replace(config, seed=seed) for seed in range(8)]
    built = federated_data.federate(configs, data)
    member = membership.members(built.split, 100)
    np.testing.assert_allclose(member.mean(axis=1), 0.5, atol=0.03)
    assert 0.2 < member.mean(axis=0).std() / 0.5 < 0.6  # not the same half each time
    assert np.array_equal(member.sum(axis=1), np.asarray(built.split.num_train).sum(1))


def test_a_table_with_texts_has_a_subset_too() -> None:
    table = {"x": range(40), "kind": ["a", "b"] * 20, "ill": ["no", "no", "yes"] * 13}
    table["ill"].append("yes")
    data = membership.subset(from_table(table, label="ill"), 20, 0.2, seed=0)
    assert len(data.train_labels) == 20 and not data.test_columns


def test_the_subset_keeps_its_images_and_a_part_of_its_labels():
    full = sources.load("digits")
    clean = membership.subset(full, 200, 0.0, seed=1)
    noisy = membership.subset(full, 200, 0.5, seed=1)
    assert np.array_equal(clean.train_inputs, noisy.train_inputs)
    changed = np.mean(clean.train_labels != noisy.train_labels)
    assert 0.35 < changed < 0.5
    assert np.array_equal(noisy.test_labels, full.test_labels)
