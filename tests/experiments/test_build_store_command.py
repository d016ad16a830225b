"""experiments.build_store as a user types it."""

import pathlib

from commands import assert_sentence, command


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
