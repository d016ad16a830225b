"""What is read of somebody else's settings, and what follows from it."""

import math
import pathlib
from collections.abc import Callable

import pytest
from others_settings import (
    CASES,
    FLARE,
    FLIP,
    TOML,
    Case,
)

from fedsvp_jax import check
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.mechanisms.subsampling import SampledSteps

READERS: dict[str, Callable[..., list[check.noise.Noise]]] = {
    "flare": check.flare.read,
    "toml": check.settings_file.read,
}


def read(case: Case, folder: pathlib.Path) -> check.noise.Noise:
    file = folder / case.name
    file.write_text(case.text)
    return READERS[case.engine](file, **case.facts or {})[0]


@pytest.mark.parametrize("name", CASES)
def test_the_noise_is_what_the_engine_adds(name: str, tmp_path: pathlib.Path) -> None:
    found = read(CASES[name], tmp_path)
    assert found.std == pytest.approx(CASES[name].std, rel=1e-3)
    assert found.multiplier == pytest.approx(CASES[name].multiplier, rel=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_the_least_change_makes_a_stated_epsilon_true_and_a_smaller_one_does_not(
    name: str, tmp_path: pathlib.Path
) -> None:
    noise = read(CASES[name], tmp_path)
    for per in ("upload", "run"):
        stated = check.Stated(0.7, 1e-6, per)
        found = check.verdict(noise, stated, 10)
        if noise.setting is None or found.reached:
            continue
        assert found.least_change is not None and found.epsilon > 0.7
        z = found.least_change.least_value / noise.setting.per_multiplier
        for part, reached in ((1.0, True), (0.98, False)):
            changed = noise._replace(multiplier=z * part)
            assert check.verdict(changed, stated, 10).reached == reached


def test_epsilon_is_this_packages_own(tmp_path: pathlib.Path) -> None:
    def epsilon(name: str, relation: str) -> float:
        return check.noise.epsilon(read(CASES[name], tmp_path), relation, 1e-5)

    z, steps = CASES["flip"].multiplier, SampledSteps(1.1, 1 / 20, 400)
    assert epsilon("flip", "zero_out") == pytest.approx(2.13e8, rel=1e-3)
    assert epsilon("flip", "replace_one") == composed_epsilon("gdp", 4 / z**2, 1e-5)
    sampled = check.noise.Noise(
        "", "", 1.1, 1.1, unit="record", relation="zero_out", steps=40, rate=1 / 20
    )
    by_pld = composed_epsilon("pld", 0, 1e-5, steps=steps)
    assert check.noise.epsilon(sampled, "zero_out", 1e-5, 10) == by_pld
    assert epsilon("sparse vector", "replace_one") == pytest.approx(70.1)
    assert epsilon("percentile", "zero_out") == math.inf
    shuffled = check.noise.Noise("", "", 2.0, 2.0, unit="record", steps=2)
    in_two_epochs = composed_epsilon("gdp", 2.0, 1e-5)
    assert check.noise.epsilon(shuffled, "replace_one", 1e-5) == in_two_epochs


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_proved_is_nominal(name: str, tmp_path: pathlib.Path) -> None:
    """Settings files alone are read in full; those without noise claim nothing."""
    proved = name.startswith(("flip", "toml"))
    rows = check.claims(read(CASES[name], tmp_path), 1e-5, 3)
    assert rows and {row.proved for row in rows} == {proved}


# By engine: text, and what the sentence says.
BAD = {
    "flare": {
        "{": "is no config_fed_client.json",
        "[]": "is no config_fed_client.json",
        FLARE.format('{"path": "my.Filter"}'): r"Filter in a\.json is my's own",
        FLARE.format('{"name": "Filter"}'): r"Filter in a\.json is no filter whose",
        FLARE.format('{"path": "SVTPrivacy"}'): "give the model's size by --parameters",
    },
    "toml": {
        "noise =": "is not TOML",
        TOML.format("gaussian", 1, "sigma = 2"): "unknown settings: sigma",
        TOML.format(
            "gaussian", 0, ""
        ): "std of a.toml must be a finite number greater than 0, got",
        "": "std of a.toml must be a finite number greater than 0, and is missing",
        TOML.format("gaussian", 1, "steps = 0"): "steps of a.toml .* at least 1, got 0",
        TOML.format("gaussian", 1, "steps = 1.9"): "must be a whole number, got 1.9",
        TOML.format("uniform", 1, ""): "noise must be gaussian or laplace",
        TOML.format("laplace", 1, "sampling_rate = 0.5"): "must be 1 with laplace",
    },
}


@pytest.mark.parametrize(
    ("engine", "text", "words"),
    [(name, *case) for name, cases in BAD.items() for case in cases.items()],
)
def test_what_cannot_be_read_is_one_sentence_and_nothing_is_guessed(
    engine: str, text: str, words: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / ("a.json" if engine == "flare" else "a.toml")
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        READERS[engine](path)
    assert "\n" not in str(caught.value)


def test_a_filter_of_all_tasks_is_asked_about_none(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config_fed_client.json"
    file.write_text(FLARE.format(FLIP.format("")).replace('"train"', '"*"'))
    (noise,) = check.flare.read(file)
    assert noise.std == 0 and noise.stated is not None
    assert not check.verdict(noise, noise.stated, None).reached
    every = file.read_text().replace("{", '{"executors": [{"tasks": ["*"]}], ', 1)
    file.write_text(every)
    assert check.flare.read(file)[0].std == 0
