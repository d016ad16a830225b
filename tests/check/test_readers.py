"""What is read of somebody else's settings, and what follows from it."""

import math
import pathlib

import pytest
from others_settings import (
    CASES,
    FLARE,
    FLIP,
    LOCAL,
    OPACUS,
    TOML,
    Case,
)

from fedsvp_jax import check
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.mechanisms.subsampling import SampledSteps


def read(case: Case, folder: pathlib.Path) -> check.Noise:
    file = folder / case.name
    file.write_text(case.text)
    return check.READERS[case.engine](file, check.Facts(**case.facts or {}))[0]


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
        assert found.needed is not None and found.epsilon > 0.7
        z = found.needed / noise.setting.per_multiplier
        for part, reached in ((1.0, True), (0.98, False)):
            changed = noise._replace(multiplier=z * part)
            assert check.verdict(changed, stated, 10).reached == reached


def test_epsilon_is_this_packages_own(tmp_path: pathlib.Path) -> None:
    def epsilon(name: str, relation: str, uploads: int = 1) -> float:
        return check.epsilon(read(CASES[name], tmp_path), relation, 1e-5, uploads)

    z, steps = CASES["flip"].multiplier, SampledSteps(1.1, 1 / 20, 400)
    assert epsilon("flip", "zero_out") == pytest.approx(2.13e8, rel=1e-3)
    twice = composed_epsilon("gdp", 4 / z**2, 1e-5)
    assert epsilon("flip", "replace_one") == twice
    by_pld = composed_epsilon("pld", 0, 1e-5, steps=steps)
    assert epsilon("poisson", "zero_out", 10) == by_pld
    assert epsilon("sparse vector", "replace_one") == pytest.approx(70.1)
    assert epsilon("percentile", "zero_out") == math.inf
    in_two_epochs = composed_epsilon("gdp", 2.0, 1e-5)
    assert epsilon("shuffled", "replace_one") == in_two_epochs
    rows = check.claims(read(CASES["shuffled"], tmp_path), 1e-5, None)
    assert [row.relation for row in rows] == ["replace a record of a client"]


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_proved_is_nominal(name: str, tmp_path: pathlib.Path) -> None:
    """Settings files alone are read in full; those without noise claim nothing."""
    proved = name.startswith(("flip", "toml"))
    rows = check.claims(read(CASES[name], tmp_path), 1e-5, 3)
    assert rows and {row.proved for row in rows} == {proved}


def test_a_flower_app_is_read_by_its_pyproject(tmp_path: pathlib.Path) -> None:
    app, project = tmp_path / "app", tmp_path / "pyproject.toml"
    app.mkdir()
    project.write_text("[project]\n")
    with pytest.raises(ValueError, match=r"no pyproject.toml of"):
        check.READERS["flower"](project, check.Facts())
    project.write_text(
        '[tool.flwr.app.components]\nclientapp = "app.client:app"\n'
        "[tool.flwr.app.config]\nnum-server-rounds = 7\ndp-epsilon = 5.0\n"
    )
    (app / "client.py").write_text(
        "from flip.flower.privacy import flip_local_dp_mod\n"
        "app = ClientApp(mods=[flip_local_dp_mod])\n"
    )
    (app / "server.py").write_text(
        "clip = context.run_config['clip']\n"
        "s = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 2.0, clip, 10)\n"
    )
    (local,) = check.READERS["flower"](project, check.Facts())
    assert local.std == pytest.approx(1e-4 * math.sqrt(2 * math.log(1.25e5)) / 5)
    assert local.rounds == 7
    assert "server.py, line 2: s = Diff" in " ".join(local.not_understood)


FILES = {"flower": "a.py", "flare": "a.json", "opacus": "a.py", "pfl": "a.py"}
GAUSSIAN = "noise_multiplier=1, max_grad_norm=1"
# By engine: text, and what the sentence says.
BAD = {
    "flower": {
        "def": "is not a Python file",
        "[s =" + "[" * 10**5: "is not a Python file",
        LOCAL.format("1, float('nan'), 1, 1e-5".replace("float('nan')", "'nan'")): (
            "finite number >= 0, got 'nan'"
        ),
        LOCAL.format("1, 1, 1"): "finite number > 0, got None",
        LOCAL.format("1, 1, 1, 2.0"): r"must be in \(0, 1\), got 2",
    },
    "flare": {
        "{": "is no config_fed_client.json",
        "[]": "is no config_fed_client.json",
        FLARE.format('{"path": "my.Filter"}'): r"Filter in a\.json is my's own",
        FLARE.format('{"name": "Filter"}'): r"Filter in a\.json is no filter whose",
        FLARE.format('{"path": "SVTPrivacy"}'): "give the model's size by --parameters",
    },
    "opacus": {
        OPACUS.format("", GAUSSIAN): "--examples of .* finite number > 0, got None",
    },
    "toml": {
        "noise =": "is not TOML",
        TOML.format("gaussian", 1, "sigma = 2"): "unknown settings: sigma",
        TOML.format(
            "gaussian", 0, ""
        ): "std of a.toml must be a finite number > 0, got",
        TOML.format("gaussian", 1, "steps = 0"): "steps of a.toml .* >= 1, got 0",
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
    path = tmp_path / FILES.get(engine, "a.toml")
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        check.READERS[engine](path, check.Facts())
    assert "\n" not in str(caught.value)


@pytest.mark.hole
@pytest.mark.parametrize("epochs", [0.1, 1.0])
def test_n16_a_started_step_and_a_dropped_batch_are_counted(
    epochs: float, tmp_path: pathlib.Path
) -> None:
    """A tenth of an epoch of one batch was ε = 0, proved; drop_last was not read."""
    facts = {"examples": 99, "epochs": epochs, "batch_size": 50}
    case = Case("opacus", "a.py", OPACUS.format("", GAUSSIAN), 1.0, 1.0, facts)
    noise = read(case, tmp_path)
    assert (noise.rate, noise.steps) == (1.0, 1 if epochs < 1 else 2)
    assert check.epsilon(noise, "zero_out", 1e-5) > 4
    for none in (0.0, -1.0):
        with pytest.raises(ValueError, match=r"epochs of .* > 0"):
            read(case._replace(facts=facts | {"epochs": none}), tmp_path)


@pytest.mark.hole
@pytest.mark.parametrize("weight", [0.001, -0.1, 1.1])
def test_n16_no_weight_is_below_the_mean_of_all(weight: float, tmp_path: pathlib.Path):
    """A weight below 1/n, which no largest one is, made a smaller ε, proved."""
    case = CASES["fixed, weights"]._replace(facts={"largest_weight": weight})
    with pytest.raises(ValueError, match=r"largest_weight .* >= 0.05 and <= 1"):
        read(case, tmp_path)


def test_a_filter_of_all_tasks_is_asked_about_none(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config_fed_client.json"
    file.write_text(FLARE.format(FLIP.format("")).replace('"train"', '"*"'))
    (noise,) = check.READERS["flare"](file, check.Facts())
    assert noise.std == 0 and noise.stated is not None
    assert not check.verdict(noise, noise.stated, None).reached
    every = file.read_text().replace("{", '{"executors": [{"tasks": ["*"]}], ', 1)
    file.write_text(every)
    assert check.READERS["flare"](file, check.Facts())[0].std == 0


def test_nothing_of_the_project_is_run(tmp_path: pathlib.Path) -> None:
    text = "import os; os._exit(3)\n" + LOCAL.format("1, 1, 1, 1e-5")
    assert read(CASES["local"]._replace(text=text), tmp_path).stated is not None
