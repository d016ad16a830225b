"""`--attack=membership`, as typed: what was learned by heart tells who taught it."""

import pathlib

import numpy as np
import pytest
from commands import assert_resumed, results, succeeds

from experiments.attack import membership
from fedsvp_jax.config import ExperimentConfig, resolve
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
    assert "lira" in done.stdout
    last = {(row["mechanism"], row["attack"]): row for row in results(folder)["rows"]}
    assert last["none", "lira"]["status"] is None
    assert last["gaussian", "lira"]["status"] == "nominal"
    assert last["none", "loss"]["accuracy_members"] > 0.9
    for attack in ("loss", "lira"):
        assert last["none", attack]["auc"] >= 0.65
        row = last["gaussian", attack]
        assert row["auc_low"] < 0.5 < row["auc_high"]
    assert (folder / "roc.svg").stat().st_size > 1000
    assert_resumed(TINY, folder, "gaussian")


def test_about_half_of_the_examples_are_members_and_each_run_has_others():
    config = resolve(ExperimentConfig(**{**membership.DEFAULTS, "dataset": "digits"}))
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
