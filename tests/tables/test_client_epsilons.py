"""The file of --client_epsilons: three formats, and every mistake in one sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedsvp_jax.tables.client_epsilons import read_client_epsilons

NUMBERED = [str(number) for number in range(5)]
NAMED = ["west", "north", "0-1"]


def file_of(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.toml", '0 = 1\n"3-4" = 2.5\n'),
        ("e.json", json.dumps({"0": 1, "3": 2.5, "4": "2.5"})),
        ("e.csv", "client,epsilon\n0,1\n3-4,2.5\n"),
        ("E.CSV", "client, epsilon\r\n4,2.5\r\n\r\n3,2.5\r\n0,1.0\r\n"),
    ],
)
def test_all_formats_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    found = read_client_epsilons(file_of(tmp_path, name, text), NUMBERED, 8.0)
    np.testing.assert_array_equal(found, [1.0, 8.0, 8.0, 2.5, 2.5])


def test_clients_are_called_as_the_data_call_them(tmp_path: Path) -> None:
    path = file_of(tmp_path, "e.toml", 'north = 1\n"0-1" = 2\n')
    assert read_client_epsilons(path, NAMED, 3.0).tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("e.toml", "7 = 1", "names client 7, and the clients are 0 to 4"),
        ("e.toml", '"4-3" = 1', "names client 4-3, and"),
        ("e.toml", '3 = 1\n"2-4" = 2', "names client 3 twice"),
        ("e.json", '{"3": 1, "3": 1}', "names client 3 twice"),
        ("e.csv", "client,epsilon\n3,1\n3,2\n", "names client 3 twice"),
        ("e.toml", "3 = -1", "must promise client 3 an ε > 0, got -1"),
        ("e.toml", "3 = nan", "must promise client 3 an ε > 0, got nan"),
        ("e.toml", "3 = true", "must promise client 3 an ε > 0, got True"),
        ("e.json", '{"3": {"1": 2}}', "must promise client 3 an ε > 0"),
        ("e.csv", "client,epsilon\n3,much\n", "client 3 an ε > 0, got 'much'"),
        ("e.csv", "client,epsilon\n3\n", "client 3 needs one ε"),
        ("e.csv", "3,1\n", "its first line must be client,epsilon"),
        ("e.csv", 'client,epsilon\n"3,1\n', "cannot be read as CSV"),
        ("e.toml", "3 = 1\n3 = 2", "cannot be read as TOML"),
        ("e.json", "[1, 2]", "is no object"),
        ("e.json", "[" * 100_000, "cannot be read as JSON"),
        ("e.yaml", "3: 1", "must be a .toml, .json or .csv file"),
        ("e.csv", "\udcff", "cannot be read"),  # a byte that is no UTF-8
        ("e.toml", "", "cannot be read"),  # it is not there
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_client(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    if text:
        (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match="client_epsilons") as error:
        read_client_epsilons(tmp_path / name, NUMBERED, 1.0)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
