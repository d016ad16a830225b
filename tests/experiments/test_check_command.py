"""`experiments.check`: what it prints of others' settings, and how it ends."""

import pathlib

from commands import Ended, assert_sentence, command
from others_settings import CASES, FLARE, FLIP, TOML


def checked(folder: pathlib.Path, text: str, *flags: str) -> Ended:
    """`experiments.check` of a configuration of NVFlare."""
    file = folder / "config_fed_client.json"
    file.write_text(text)
    return command("experiments.check", "flare", str(file), *flags)


def test_a_hospital_networks_defaults_give_2e8(tmp_path: pathlib.Path) -> None:
    shown = checked(tmp_path, FLARE.format(FLIP.format("")), "--rounds=20")
    assert shown.status == 1
    for words in (
        "std 4.845e-05 on every upload, clipped to 1",
        "2.131e+08",
        "it does not follow, ε is 8.523e+08",
        "least change: sensitivity = 2.064 (it is 0.0001)",
        "20 rounds",
        "assumed: what else leaves",
    ):
        assert words in shown.stdout, words


def test_what_is_printed_as_the_least_change_passes(tmp_path: pathlib.Path) -> None:
    changed = FLARE.format(FLIP.format('"sensitivity": 2.0642'))
    shown = checked(tmp_path, changed)
    assert shown.status == 0 and "it follows" in shown.stdout
    tight = checked(tmp_path, changed, "--rounds=20", "--epsilon=10")
    assert tight.status == 1 and "run, replace" in tight.stdout


def test_every_claim_is_printed(tmp_path: pathlib.Path) -> None:
    line = (tmp_path, CASES["percentile"].text, "--epsilon=1")
    needs = "the ε of a run needs its number of rounds; give --rounds"
    assert_sentence(checked(*line), needs)
    shown = checked(*line, "--rounds=3")
    assert shown.status == 1 and shown.stdout.count("  nominal  server: ") == 4
    assert "proved" not in shown.stdout and "it does not follow" in shown.stdout
    assert "nominal: there is no noise" in shown.stdout


def test_bad_input_is_one_sentence(tmp_path: pathlib.Path) -> None:
    toml = tmp_path / "a.toml"
    none = tmp_path / "a.json"
    none.write_text('{"task_result_filters": []}')
    toml.write_text(TOML.format("gaussian", 1, ""))
    for line, words in {
        "flare": "name one of flare, toml, and one file",
        "opacus train.py": "are asked in Python, by fedsvp_jax.check",
        f"tff {toml}": "name one of flare",
        f"flare {none}": "nothing that is known adds noise there",
        f"flare {tmp_path}/no.json": "No such file",
        f"toml {toml} --delta=2": "delta must be in (0, 1), got 2.0",
    }.items():
        assert_sentence(command("experiments.check", *line.split()), words)


def test_a_large_delta_is_warned_of_and_refused_against_a_population(
    tmp_path: pathlib.Path,
) -> None:
    """ "It follows, ε is 0.1053 (proved)" at δ = 0.1, and nothing else."""
    toml = tmp_path / "dp.toml"
    toml.write_text(TOML.format("gaussian", 9, "epsilon = 8.0\ndelta = 0.1"))
    line = ("experiments.check", "toml", str(toml))
    alone, of_all = command(*line), command(*line, "--population_size=1000")
    for shown, status in ((alone, 0), (of_all, 1)):
        assert shown.status == status
        assert "warning: δ = 0.1 is too large: who publishes one client" in shown.stdout
    assert "it does not follow" in of_all.stdout and "(nominal)" in of_all.stdout


def test_the_manual_shows_how_other_engines_are_asked() -> None:
    for engine in ((), ("opacus",)):
        shown = command("experiments.check", *engine, "--help").stdout
        assert "check.opacus.live(optimizer, loader" in shown
        assert "--population_size" in shown


def test_a_file_whose_numbers_are_nominal_ends_with_1(tmp_path: pathlib.Path) -> None:
    """It was "it follows, nominally", with 0."""
    text = CASES["sparse vector"].text
    shown = checked(tmp_path, text, "--parameters=7000", "--rounds=1", "--epsilon=999")
    assert shown.status == 1
    assert "it does not follow, ε is 70.1 (nominal)" in shown.stdout


def test_a_file_whose_filters_add_no_noise_ends_with_1(tmp_path: pathlib.Path) -> None:
    """PercentilePrivacy alone, with no ε stated, was a green light."""
    percentile = CASES["percentile"].text
    shown = checked(tmp_path, percentile)
    assert shown.status == 1 and "it adds no noise" in shown.stdout
    flip = FLIP.format('"sensitivity": 2.0642')
    both = percentile.replace('"filters": [', f'"filters": [{flip}, ')
    assert checked(tmp_path, both).status == 0
