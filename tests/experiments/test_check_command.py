"""`experiments.check`: what it prints of others' settings, and how it ends."""

import json
import pathlib

from commands import assert_sentence, command
from others_settings import CASES, FLARE, FLIP, TOML


def written(folder: pathlib.Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_a_hospital_networks_defaults_give_2e8(tmp_path: pathlib.Path) -> None:
    file = written(tmp_path, "config_fed_client.json", FLARE.format(FLIP.format("")))
    shown = command("experiments.check", "flare", file, "--rounds=20")
    assert shown.status == 1
    for words in (
        "std 4.845e-05 on every upload, clipped to 1",
        "2.131e+08",
        "it does not follow, ε is 8.523e+08",
        "least change: sensitivity = 2.064 (it is 0.0001)",
        "replace all records of a client  20 rounds",
        "assumed: what else leaves",
    ):
        assert words in shown.stdout, words


def test_what_is_printed_as_the_least_change_passes(tmp_path: pathlib.Path) -> None:
    args = '"sensitivity": 2.0642'
    file = written(tmp_path, "config_fed_client.json", FLARE.format(FLIP.format(args)))
    shown = command("experiments.check", "flare", file)
    assert shown.status == 0 and "it follows" in shown.stdout
    tight = command("experiments.check", "flare", file, "--rounds=20", "--epsilon=10")
    assert tight.status == 1 and "run, replace" in tight.stdout
    given = command("experiments.check", "flare", file, "--set=sensitivity=1")
    assert given.status == 1


def test_json_holds_every_claim(tmp_path: pathlib.Path) -> None:
    case = CASES["percentile"]
    file = written(tmp_path, case.name, case.text)
    shown = command("experiments.check", "flare", file, "--json", "--epsilon=1")
    assert_sentence(shown, "the ε of a run needs its number of rounds; give --rounds")
    line = ("flare", file, "--json", "--epsilon=1", "--rounds=3")
    shown = command("experiments.check", *line)
    (found,) = json.loads(shown.stdout)
    assert shown.status == 1 and len(found["claims"]) == 4
    assert {row["status"] for row in found["claims"]} == {"nominal"}
    assert found["claims"][0]["epsilon"] is None and not found["stated"][0]["reached"]
    assert found["nominal_because"] == ["there is no noise"]


def test_bad_input_is_one_sentence(tmp_path: pathlib.Path) -> None:
    python = written(tmp_path, "a.py", "x = 1\n")
    toml = written(tmp_path, "a.toml", TOML.format("gaussian", 1, ""))
    for line, words in (
        (("flower",), "name one of flower, flare, opacus, pfl, toml, and one file"),
        (("tff", python), "name one of flower"),
        (("flower", python), "nothing that is known adds noise there"),
        (("flower", str(tmp_path / "no.py")), "No such file"),
        (("flower", python, "--set=clip"), "--set must be NAME=NUMBER, got 'clip'"),
        (("toml", toml, "--delta=2"), "delta must be in (0, 1), got 2.0"),
    ):
        assert_sentence(command("experiments.check", *line), words)
