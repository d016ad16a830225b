"""What is not understood is never proved; objects say what they are."""

import json
import math
import pathlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from others_settings import FLARE, FLIP, TOML
from scipy import optimize, stats

from fedsvp_jax import check
from fedsvp_jax.check.noise import Noise, Setting


@pytest.mark.hole
@pytest.mark.parametrize("change", ["executors", "direction", "own"])
def test_a_result_that_leaves_without_its_filter_has_no_noise(
    change: str, tmp_path: pathlib.Path
) -> None:
    """submit_model was not looked at, nor a direction, nor a filter's module."""
    content = json.loads(FLARE.format(FLIP.format('"sensitivity": 3.0')))
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    (noise,) = check.flare.read(path)
    assert noise.std > 0 and "no task but train sends" in noise.assumptions[-1]
    (chain,) = content["task_result_filters"]
    if change == "executors":
        content["executors"] = [{"tasks": ["train", "validate", "submit_model"]}]
    elif change == "direction":
        chain["direction"] = "in"
    else:
        chain["filters"][0]["path"] = "mine.LocalDifferentialPrivacy"
    path.write_text(json.dumps(content))
    if change == "executors":
        (noise,) = check.flare.read(path)
        assert noise.std == 0 and "submit_model sends" in noise.text
        chain["tasks"].append("submit_model")
        path.write_text(json.dumps(content))
        assert check.flare.read(path)[0].std > 0
    elif change == "direction":
        assert check.flare.read(path) == []
    else:
        with pytest.raises(ValueError, match=r"is mine's own, whose noise"):
            check.flare.read(path)


@pytest.mark.hole
def test_to_replace_a_part_under_laplace_noise_moves_it_twice(
    tmp_path: pathlib.Path,
) -> None:
    """A TOML that states the ε of a replacement was given that of zero."""
    path = tmp_path / "a.toml"
    stated = 'epsilon = 4.0\nrelation = "replace_one"\n'
    path.write_text(TOML.format("laplace", 0.5, stated))
    (noise,) = check.settings_file.read(path)
    (row,) = check.claims(noise, 1e-5, None)
    assert (row.relation, row.epsilon) == ("replace all records of a client", 4.0)


@pytest.mark.hole
def test_the_server_sees_who_uploads_so_nothing_is_amplified(
    tmp_path: pathlib.Path,
) -> None:
    """ε = .19 over 100 rounds was proved for 1 % of the clients in each."""
    path = tmp_path / "a.toml"
    path.write_text("std = 1.0\nclip = 1.0\nrounds = 100\nsampling_rate = 0.01\n")
    with pytest.raises(ValueError, match="since the server sees who uploads"):
        check.settings_file.read(path)


@pytest.mark.hole
def test_an_amplified_row_says_that_its_draws_must_be_secret(
    tmp_path: pathlib.Path,
) -> None:
    """With batches that are shuffled "it follows" was said, without a condition."""
    path = tmp_path / "a.toml"
    words = 'std = 1.0\nclip = 1.0\nunit = "record"\nrounds = 9\n'
    for rate, said in ((0.1, True), (1.0, False)):
        path.write_text(words + f"sampling_rate = {rate}\n")
        (noise,) = check.settings_file.read(path)
        secret = "each batch draws every record by itself, in secret"
        assert (secret in noise.assumptions) == said
        (row, *_) = check.claims(noise, 1e-5, None)
        assert (secret in row.assumptions) == said


@pytest.mark.hole
def test_an_argument_of_flips_filter_that_is_not_known_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    """With `exclude_vars` or `enabled` an ε was proved, and the status was 0."""
    path = tmp_path / "config_fed_client.json"
    path.write_text(FLARE.format(FLIP.format('"exclude_vars": ["head"]')))
    with pytest.raises(ValueError, match="arguments unknown here: exclude_vars"):
        check.flare.read(path)


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """ε of a Gaussian at δ, by the formula of Balle and Wang 2018."""

    def excess(x: float) -> float:
        above = stats.norm.cdf(0.5 / multiplier - x * multiplier)
        below = stats.norm.cdf(-0.5 / multiplier - x * multiplier)
        return float(above - np.exp(x) * below - delta)

    return float(optimize.brentq(excess, 0, 99))


def of(path: str, **values: Any) -> Any:
    """An object that has the class of an engine's, by its name, and these values."""
    module, _, name = path.rpartition(".")
    made = type(name, (), {"__module__": module})()
    vars(made).update(values)
    return made


STRATEGY = "flwr.serverapp.strategy."


def strategy(inner: str = "fedavg.FedAvg", side: str = "Server", **more: Any) -> Any:
    settings: dict[str, Any] = {
        "noise_multiplier": 1.0,
        "clipping_norm": 1.0,
        "num_sampled_clients": 10,
    }
    asks = {"min_train_nodes": more.pop("min_train_nodes", 10), "fraction_train": 1.0}
    settings |= {"accountant": None, "strategy": of(STRATEGY + inner, **asks)}
    name = f"dp_fixed_clipping.DifferentialPrivacy{side}SideFixedClipping"
    return of(STRATEGY + name, **settings | more)


@pytest.mark.hole
def test_a_client_that_does_not_answer_moves_flowers_average_twice_as_far() -> None:
    """It was counted as C/n; the average of the others divides by n - 1."""
    clients, most = 10, 0.0
    for seed in range(200):
        updates = np.random.default_rng(seed).normal(size=(clients, 2))
        updates[0] = -3 * updates[1:].mean(axis=0)
        updates /= np.maximum(1, np.linalg.norm(updates, axis=1, keepdims=True))
        moved = updates.mean(axis=0) - updates[1:].mean(axis=0)
        most = max(most, float(np.linalg.norm(moved)))
    one = np.array([1.0, 0])
    moved = np.linalg.norm((one - 9 * one) / 10 - -one)
    assert max(most, moved) == pytest.approx(2 / clients)
    (noise,) = check.flower.live(strategy(), largest_weight=0.1)
    zero, replaced = check.claims(noise, 1e-5, None)
    assert zero.epsilon == pytest.approx(gaussian_epsilon(1.0, 1e-5), rel=1e-4)
    assert replaced.epsilon == pytest.approx(gaussian_epsilon(0.5, 1e-5), rel=1e-4)
    assert zero.proved and replaced.proved and "number fixed" in zero.relation
    stated = check.verdict(noise, check.Stated(5.0, 1e-5, "run"), 1)
    assert stated.epsilon == replaced.epsilon and not stated.reached


def training(
    history: list[tuple[float, float, int]], epochs: float = 1, **more: Any
) -> list[check.noise.Noise]:
    """Of an optimizer of Opacus whose steps stand in its accountant's history."""
    accountant, sample_rate = SimpleNamespace(history=history), more.get("rate", 1 / 94)

    def hook_of(self: Any) -> Any:
        def hook(optimizer: Any) -> Any:
            return self, sample_rate, optimizer

        return hook

    optimizer = of(
        more.get("optimizer", "opacus.optimizers.optimizer.DPOptimizer"),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        step_hook=hook_of(more.get("counted", accountant)),
        **{"generator": None, "secure_mode": False} | more.get("settings", {}),
    )
    sampler = "opacus.utils.uniform_sampler.UniformWithReplacementSampler"
    kind = more.get("loader", "opacus.data_loader.DPDataLoader")
    loader = of(kind, batch_sampler=of(sampler, sample_rate=sample_rate))
    type(loader).__len__ = len_of = lambda self: 94
    len_of.__module__ = more.get("methods_of", type(loader).__module__)
    return check.opacus.live(optimizer, loader, epochs=epochs, accountant=accountant)


@pytest.mark.hole
def test_a_step_on_eight_batches_costs_what_it_may() -> None:
    """A text that steps once in eight batches was ε = 0.718, proved."""
    (alone,) = training([(1.0, 1 / 94, 94)])
    assert check.claims(alone, 1e-6, None)[0].proved
    (noise,) = training([(1.0, 8 / 94, 11)])
    assert check.noise.epsilon(noise, "zero_out", 1e-6) == math.inf
    assert "not each on one batch" in noise.flaws[0]
    (scheduled,) = training([(1.0, 1 / 94, 50), (0.1, 1 / 94, 44)])
    assert (scheduled.multiplier, scheduled.steps) == (0.1, 94)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"optimizer": "opacus.optimizers.adaclipoptimizer.AdaClipDPOptimizer"},
            "AdaC",
        ),
        ({"optimizer": "mine.DPOptimizer"}, "mine.DPOptimizer is no class"),
        ({"counted": None}, "steps are not each"),
        ({"rate": 1 / 95}, "steps are not each"),
        ({"rate": 1 / 9}, "steps are not each"),
        ({"methods_of": "mine"}, "method of its own"),
    ],
)
def test_an_optimizer_of_another_class_or_accountant_is_not_proved(
    change: dict[str, Any], words: str
) -> None:
    """Live objects could not be asked."""
    (noise,) = training([(1.0, 1 / 94, 94)], **change)
    assert words in "".join(noise.flaws)
    assert not any(row.proved for row in check.claims(noise, 1e-6, None))


@pytest.mark.hole
def test_the_rate_of_batches_is_the_samplers_own() -> None:
    """It was 1 / len(loader), which stays when `sample_rate` is set."""
    (noise,) = training([], rate=0.5)
    assert (noise.rate, noise.steps) == (0.5, 94) and "rate 0.5" in noise.text


@pytest.mark.hole
def test_opacus_does_not_say_that_an_example_is_one_record() -> None:
    """A collate_fn that mixes neighbours was proved, and no assumption spoke of it.

    Without one record of such a batch two mixed gradients change too, each by up to 2C.
    """
    (noise,) = training([(1.0, 1 / 94, 94)])
    (row,) = check.claims(noise, 1e-6, None)
    assert row.proved and "no loss, collate_fn or layer joins" in row.assumptions


def test_a_training_that_is_planned_is_nominal() -> None:
    (noise,) = training([])
    assert (noise.steps, noise.multiplier) == (94, 1.0)
    assert not check.claims(noise, 1e-6, None)[0].proved and "planned" in noise.flaws[0]


def test_shuffled_batches_are_not_understood() -> None:
    loader = "torch.utils.data.dataloader.DataLoader"
    (noise,) = training([], epochs=2, loader=loader)
    assert noise.std == 0 and "DataLoader is no class" in noise.flaws[0]


@pytest.mark.hole
def test_a_started_step_is_counted() -> None:
    """A tenth of an epoch of one batch was ε = 0, proved."""
    (noise,) = training([], epochs=0.001)
    assert noise.steps == 1
    for none in (0.0, -1.0):
        with pytest.raises(ValueError, match=r"epochs of .* greater than 0"):
            training([], epochs=none)


@pytest.mark.hole
def test_one_client_counts_as_the_average_unless_number_and_weight_are_stated() -> None:
    """Two clients of which one is replaced move the average by 2C/2, and σ was C/10.

    FedAvg counts who is connected before it waits for `min_available_nodes`.
    """
    stated = check.Stated(99.0, 1e-5, "run")
    for fewest, weight, share in (
        (2, 0.1, 1.0),
        (9, 0.1, 1.0),
        (10, None, 1.0),
        (10, 0.1, 0.1),
        (40, 0.1, 0.1),
    ):
        server = strategy(min_train_nodes=fewest)
        (noise,) = check.flower.live(server, largest_weight=weight)
        assert noise.multiplier == pytest.approx(0.1 / share) and not noise.flaws
        assert ("may be the whole average" in noise.assumptions[0]) == (share == 1)
        verdict = check.verdict(noise, stated, 1)
        assert verdict.status == "proved" and verdict.reached == (share < 1)
        if share == 1:  # the change that `check` names makes it true
            assert verdict.least_change is not None
            least = verdict.least_change.least_value
            server = strategy(min_train_nodes=fewest, noise_multiplier=least)
            (noise,) = check.flower.live(server, largest_weight=weight)
            assert check.verdict(noise, stated, 1).reached
    # With its accountant Flower averages no other number.
    accountant = SimpleNamespace(
        num_releases=3,
        get_privacy_spent=lambda: SimpleNamespace(epsilon=1.0, delta=1e-5),
    )
    (noise,) = check.flower.live(strategy(min_train_nodes=2, accountant=accountant))
    assert not noise.flaws and noise.rounds == 3


@pytest.mark.hole
def test_a_bit_that_tells_whether_an_update_was_clipped_is_nominal() -> None:
    """adaptiveclipping_mod sends it, and metrics were assumed to tell nothing."""

    def adaptiveclipping_mod() -> None: ...

    adaptiveclipping_mod.__module__ = "flwr.clientapp.mod.centraldp_mods"
    adaptiveclipping_mod.__qualname__ = "adaptiveclipping_mod"
    for server in (strategy(), of(STRATEGY + "fedavg.FedAvg")):
        noises = check.flower.live(
            server, [adaptiveclipping_mod, of(LOCAL_MOD, **LOCAL)], largest_weight=0.1
        )
        assert noises
        for noise in noises:
            assert "without noise, whether the update was clipped" in "".join(
                noise.flaws
            )


@pytest.mark.hole
def test_noise_whose_seed_the_object_holds_is_nominal() -> None:
    """ "nobody's guess" was assumed of an optimizer that has its own generator."""
    for secure, said in ((False, True), (True, False)):
        more = {"generator": object(), "secure_mode": secure}
        (noise,) = training([(1.0, 1 / 94, 94)], settings=more)
        assert ("a generator of one's own" in "".join(noise.flaws)) == said


@pytest.mark.hole
@pytest.mark.parametrize("weight", [0.001, -0.1, 1.1])
def test_no_weight_is_below_the_mean_of_all(weight: float) -> None:
    """A weight below 1/n, which no largest one is, made a smaller ε, proved."""
    with pytest.raises(
        ValueError, match=r"largest_weight .* at least 0.1 and at most 1"
    ):
        check.flower.live(strategy(), largest_weight=weight)


@pytest.mark.hole
@pytest.mark.parametrize(
    "inner", ["fedmedian.FedMedian", "fedadam.FedAdam", "fedavgm.FedAvgM", "own"]
)
def test_another_inner_strategy_or_a_method_of_its_own_is_not_understood(
    inner: str,
) -> None:
    """Whatever it averaged, C/n was counted, proved."""
    server = strategy() if inner == "own" else strategy(inner)
    if inner == "own":
        type(server).aggregate_train = lambda self: None
        server.aggregate_train = lambda: None
    (noise,) = check.flower.live(server, largest_weight=0.1)
    assert noise.flaws and noise.std == 0
    assert all(row.epsilon == math.inf for row in check.claims(noise, 1e-5, None))


LOCAL = {"clipping_norm": 1.0, "sensitivity": 2.0, "epsilon": 1.0, "delta": 1e-5}


@pytest.mark.hole
@pytest.mark.parametrize(
    ("server", "mod", "words"),
    [
        (STRATEGY + "fedavg.FedAvg", "flwr.clientapp.mod.localdp_mod.LocalDpMod", ""),
        (
            STRATEGY + "fedavg.FedAvg",
            "flwr.client.mod.localdp_mod.LocalDpMod",
            "flwr.client.mod.localdp_mod.LocalDpMod is no class",
        ),
        (
            "flwr.server.strategy.fedavg.FedAvg",
            "flwr.clientapp.mod.localdp_mod.LocalDpMod",
            "flwr.server.strategy.fedavg.FedAvg is no class",
        ),
    ],
)
def test_local_noise_under_an_average_is_understood_of_new_modules_alone(
    server: str, mod: str, words: str
) -> None:
    """FedAvg was not understood, nor "builtins.NoneType", which it does not wrap.

    The older mod answers a request for its parameters without noise.
    """
    (noise,) = check.flower.live(of(server), [of(mod, **LOCAL)])
    (row, *_) = check.claims(noise, 1e-5, None)
    assert row.proved == (not words) and words in "".join(noise.flaws)
    assert "NoneType" not in row.assumptions


@pytest.mark.hole
def test_clients_that_do_not_clip_are_unbounded() -> None:
    """ClientSideFixedClipping was counted by its clip, whoever clips."""
    (noise,) = check.flower.live(strategy(side="Client"), largest_weight=0.1)
    assert check.noise.epsilon(noise, "zero_out", 1e-5) == math.inf
    assert "no client clips" in noise.flaws[0]

    def fixedclipping_mod() -> None: ...

    fixedclipping_mod.__module__ = "flwr.clientapp.mod.centraldp_mods"
    fixedclipping_mod.__qualname__ = "fixedclipping_mod"
    (noise,) = check.flower.live(
        strategy(side="Client"), [fixedclipping_mod], largest_weight=0.1
    )
    assert check.claims(noise, 1e-5, None)[0].proved


def test_flares_filters_are_asked_by_task(tmp_path: pathlib.Path) -> None:
    """Of FLARE's own path; a result that leaves without one has no noise."""
    args = {"gamma": 0.1, "epsilon_release": None}
    svt = {"path": "nvflare.app_common.filters.svt_privacy.SVTPrivacy", "args": args}
    content: dict[str, Any] = {
        "task_result_filters": [{"tasks": ["train"], "filters": [svt]}]
    }
    path = tmp_path / "config_fed_client.json"
    for tasks, std in ((["train"], 2 * 0.1 * 700 / 70), (["train", "submit_model"], 0)):
        content["executors"] = [{"tasks": tasks}]
        path.write_text(json.dumps(content))
        (noise,) = check.flare.read(path, parameters=7000)
        assert noise.std == pytest.approx(std)


@pytest.mark.hole
@pytest.mark.parametrize("more", ["", "sampling_rate = 0.5\nunit = 'record'\n"])
def test_noise_too_small_to_count_gives_an_infinite_epsilon(
    more: str, tmp_path: pathlib.Path
) -> None:
    """std = 1e-200 ended with a traceback: its square is 0."""
    for std in (1e-200, 1e-160, 1e-320):
        (tmp_path / "dp.toml").write_text(f"std = {std}\nclip = 1.0\n{more}")
        (noise,) = check.settings_file.read(tmp_path / "dp.toml")
        claims = check.claims(noise, 1e-5, rounds=2)
        assert claims and all(claim.epsilon == math.inf for claim in claims)
        assert not any(claim.proved for claim in claims)


@pytest.mark.hole
def test_an_epsilon_of_0_is_named_before_a_delta_that_is_missing(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "dp.toml").write_text("std = 1.0\nclip = 1.0\nepsilon = 0")
    with pytest.raises(ValueError, match=r"epsilon of dp\.toml .* than 0, got 0"):
        check.settings_file.read(tmp_path / "dp.toml")


LOCAL_MOD = "flwr.clientapp.mod.localdp_mod.LocalDpMod"
NOMINAL = {
    "an unknown mod": lambda: check.flower.live(
        of(STRATEGY + "fedavg.FedAvg"), [of("mine.Mod"), of(LOCAL_MOD, **LOCAL)]
    ),
    "opacus, planned": lambda: training([]),
}


@pytest.mark.hole
@pytest.mark.parametrize("name", NOMINAL)
def test_a_flaw_leaves_no_green_light(name: str) -> None:
    """Under a mod that nobody knows ε = 0.751 was "reached"."""
    (noise,) = NOMINAL[name]()
    assert noise.flaws and noise.multiplier > 0
    stated = check.Stated(1000.0, 1e-5, "upload")
    verdict = check.verdict(noise, stated, None)
    assert verdict.epsilon < 1000 and verdict.status == "nominal"
    assert not verdict.reached and verdict.least_change is None
    sound = check.verdict(noise._replace(flaws=()), stated, None)
    assert sound.reached and sound.status == "proved"


@pytest.mark.hole
def test_arguments_that_say_nothing_are_one_sentence() -> None:
    """ "runs" was an upload, rounds=0 none at all, rounds=1.5 a round and a half."""
    cases: dict[Any, str] = {
        (1.0, 1e-5, "runs"): "per must be 'upload' or 'run', got 'runs'",
        (-1.0, 1e-5, "run"): "epsilon of a stated claim .* at least 0, got -1.0",
        ("1", 1e-5, "run"): "epsilon of .* must be a finite number .* got '1'",
        (math.nan, 1e-5, "run"): "epsilon of .* got nan",
        (1.0, 1.0, "run"): "delta of .* at least 0 and less than 1, got 1.0",
        (1.0, 0.1, "run", 0): "population_size of .* at least 1, got 0",
        (1.0, 0.1, "run", 1.5): "population_size of .* must be a whole number",
    }
    for wrong, words in cases.items():
        with pytest.raises(ValueError, match=words):
            check.Stated(*wrong)
    (noise,) = training([(1.0, 1 / 94, 94)])
    stated = check.Stated(1.0, 1e-5, "upload")
    for rounds, words in ((0, "at least 1"), (-1, "at least 1"), (1.5, "whole number")):
        with pytest.raises(ValueError, match=f"rounds of opacus.* {words}"):
            check.verdict(noise, stated, rounds)
        with pytest.raises(ValueError, match=f"rounds of opacus.* {words}"):
            check.claims(noise, 1e-5, rounds)
    with pytest.raises(ValueError, match=r"in Python rounds="):
        check.verdict(noise, check.Stated(1.0, 1e-5, "run"), None)
    app = of("flwr.clientapp.client_app.ClientApp")
    with pytest.raises(TypeError, match="mods are a list, got"):
        check.flower.live(None, app)


@pytest.mark.hole
def test_a_delta_that_covers_publishing_a_record_is_no_green_light(
    tmp_path: pathlib.Path,
) -> None:
    """δ = .5 was "0.0 proved True", and the command ended with 0."""
    path = tmp_path / "dp.toml"
    path.write_text('std = 4.0\nclip = 1.0\nunit = "record"\nrounds = 1\n')
    (noise,) = check.settings_file.read(path)

    def verdict(delta: float, size: int | None) -> check.noise.Verdict:
        return check.verdict(noise, check.Stated(9.0, delta, "run", size), 1)

    for delta, size, reached, warned in (
        (0.5, None, True, True),
        (2e-3, None, True, True),
        (1e-3, None, True, False),
        (1e-4, 10_000, False, True),
        (1e-5, 10_000, True, False),
    ):
        result = verdict(delta, size)
        assert (result.reached, bool(result.warning)) == (reached, warned)
        assert result.status == ("proved" if reached else "nominal")
        assert ("\nwarning: δ = " in str(result)) == warned
    assert verdict(1e-4, 10_000).least_change is None
    assert "publishes one record of 2 whole keeps it" in verdict(0.5, None).warning
    path.write_text(
        path.read_text() + "epsilon = 9.0\ndelta = 0.1\npopulation_size = 10"
    )
    (noise,) = check.settings_file.read(path)
    assert noise.stated is not None
    assert not check.verdict(noise, noise.stated, 1).reached


@pytest.mark.hole
def test_to_replace_a_record_of_poisson_batches_does_not_follow_and_says_why() -> None:
    """The search for a noise multiplier that helps ended the check without a table."""
    noise = Noise("dp.toml", "", std=1.1, multiplier=1.1, rate=0.01, steps=100)
    noise = noise._replace(setting=Setting("std", 1.0))
    result = check.verdict(noise, check.Stated(3.0, 1e-5, "run"), 1)
    assert not result.reached and result.least_change is None
    assert "warning: to replace is not counted with Poisson batches" in str(result)


@pytest.mark.hole
def test_at_a_delta_of_0_no_epsilon_follows_from_gaussian_noise(
    tmp_path: pathlib.Path,
) -> None:
    """Stated took it, and then "delta must be in (0, 1)" ended the check."""
    for kind, finite in (("gaussian", False), ("laplace", True)):
        path = tmp_path / f"{kind}.toml"
        path.write_text(TOML.format(kind, 1, ""))
        (noise,) = check.settings_file.read(path)
        result = check.verdict(noise, check.Stated(50.0, 0.0, "run"), 2)
        assert math.isfinite(result.epsilon) == result.reached == finite
        assert result.least_change is None
        assert all(
            math.isfinite(row.epsilon) == finite for row in check.claims(noise, 0.0, 2)
        )


def test_a_verdict_and_its_noise_are_printed_in_lines() -> None:
    """They were 2.5 kB of a dataclass, and `needed=3.79` had no unit."""
    (noise,) = training([(1.0, 1 / 94, 94)])
    text = check.table(noise, 1e-5, 2)
    title, *rows = text.splitlines()
    assert title.startswith(noise.source)
    for row, claim in zip(rows, check.claims(noise, 1e-5, 2), strict=False):
        start = f"{claim.method:18}  ε = {claim.epsilon:<9.4g}  δ = 1e-05"
        assert row.startswith(start)
        assert row.endswith(f"  proved   {claim.adversary}: {claim.relation}")
    assert f"assumed: {noise.assumptions[0]}" in rows
    result = check.verdict(noise, check.Stated(0.1, 1e-5, "run"), 2)
    change = result.least_change
    assert change is not None and change.setting == "noise_multiplier"
    assert change.present_value == 1.0 < change.least_value
    stated, least = str(result).splitlines()
    assert stated.startswith("stated: ε = 0.1 at δ = 1e-05, run, a record's part")
    value = f"{change.least_value:.4g}"
    assert least == f"least change: noise_multiplier = {value} (it is 1)"
    # What a file says moves no cursor.
    assert "\x1b" not in check.table(noise._replace(source="\x1b[2J"), 1e-5, None)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (
            lambda: check.opacus.live(1, 2),
            "give what Opacus 1.6's make_private returned",
        ),
    ],
)
def test_what_is_wanted_is_named(call: Any, wanted: str) -> None:
    """ "builtins.int is no class that is known here" stood there twice."""
    (noise,) = call()
    assert wanted in noise.text
    assert len({*noise.flaws}) == len(noise.flaws)
    assert "builtins.int is no class" in noise.flaws[0]
