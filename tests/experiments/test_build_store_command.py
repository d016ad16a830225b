"""experiments.build_store and the run on what it built, as a user types them."""

import json
import pathlib

import numpy as np
import pytest
from commands import assert_sentence, command, succeeds

from fedsvp_jax.data import sources

TRAIN = (
    "experiments.train",
    "--partition=by_writer",
    "--model=mlp",
    "--mechanism=none",
    "--num_clients=5",
    "--num_hbc_clients=1",
    "--cohort_size=2",
    "--batch_size=5",
    "--local_epochs=1",
    "--num_rounds=2",
    "--noreport",
)


def write_npz(path: pathlib.Path) -> None:
    """Digits by seven writers."""
    digits = sources.load("digits")
    writers = np.arange(len(digits.train_labels)) % 7
    np.savez(
        path,
        x_train=digits.train_inputs,
        y_train=digits.train_labels,
        x_test=digits.test_inputs,
        y_test=digits.test_labels,
        writer_train=writers,
    )


@pytest.mark.slow
def test_a_run_on_the_built_store_has_the_bits_of_the_run_in_memory(
    tmp_path: pathlib.Path,
) -> None:
    data, store = tmp_path / "digits.npz", tmp_path / "stores" / "digits"
    write_npz(data)
    built = succeeds(
        "experiments.build_store",
        "--dataset=npz",
        f"--data_dir={data}",
        "--partition=by_writer",
        f"--output_dir={store}",
    )
    assert "7 clients with 206 to 206 examples each, 1442 in total" in built.stdout
    assert [path.name for path in store.parent.iterdir()] == ["digits"]
    hashes = []
    for dataset, data_dir in (("npz", data), ("store", store)):
        folder = tmp_path / dataset
        succeeds(
            *TRAIN,
            f"--dataset={dataset}",
            f"--data_dir={data_dir}",
            f"--output_dir={folder}",
        )
        summary = json.loads((folder / "summary.json").read_text())
        hashes.append(summary["params_sha256"])
    assert hashes[0] == hashes[1]


def test_what_cannot_be_built_or_trained_ends_in_one_line(
    tmp_path: pathlib.Path,
) -> None:
    folder = f"--output_dir={tmp_path / 'new'}"
    build = ["experiments.build_store", folder]
    train = ["experiments.train", "--dataset=store", folder]
    cases = {
        "partition=by_writer needs writers": [
            *build,
            "--dataset=digits",
            "--partition=by_writer",
        ],
        "exists; give a new folder": [*build[:1], f"--output_dir={tmp_path}"],
        "dataset must be one of": [*build, "--dataset=digit"],
        "output_dir is required": build[:1],
        "dataset store needs data_dir": train,
        "store.json is missing": [*train, f"--data_dir={tmp_path}"],
        "experiments.train alone": [
            "experiments.sweep",
            "--dataset=store",
            f"--data_dir={tmp_path}",
            folder,
        ],
    }
    for message, line in cases.items():
        assert_sentence(command(*line), message)
    assert not list(tmp_path.iterdir())
