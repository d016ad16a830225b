"""`experiments.goal`: steps from public counts, and a useful model of small sites."""

import math
import pathlib

import jax
import numpy as np
import pytest
from scipy import optimize, stats

from experiments import goal
from fedsvp_jax import federation, run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, from_toml, to_toml

SIZES = np.array([1, 2, 2, 4, 6, 9, 11, 15, 17, 20, 25, 28, 31, 38, 43, 50, 61, 70])


def least_multiplier(epsilon: float) -> float:
    """z of one Gaussian at δ = 1e-5, by its definition (Balle and Wang 2018)."""

    def excess(z: float) -> float:
        far, near = 0.5 / z + epsilon * z, 0.5 / z - epsilon * z
        normal = stats.norm.cdf
        return float(normal(near) - math.exp(epsilon) * normal(-far) - 1e-5)

    return float(optimize.brentq(excess, 0.05, 500))


@pytest.mark.hole
@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_of_the_steps_is_that_of_the_mean_gradient(secure: bool) -> None:
    """All rounds' averages of noise alone, over what they have of the gradient."""
    epsilon, rounds, draws = 3.0, 60, 4000
    steps = goal.steps(SIZES, epsilon, 2 if secure else None)
    rng, clients = np.random.default_rng(0), len(SIZES)
    std = 2 * least_multiplier(epsilon) * math.sqrt(rounds)  # C = 2, on a sum
    std /= math.sqrt(clients - 2) if secure else 1
    weights = np.ones(clients) if secure else SIZES
    weights = weights / weights.sum() / steps.batch_size
    # The mean of the rounds is Gaussian with 1/√rounds of a round's noise.
    noise = rng.normal(size=(draws, clients)) @ (weights * std) / math.sqrt(rounds)
    pull = float(weights @ SIZES)  # of the mean gradient, in a round
    assert steps.batch_size == SIZES.max()
    assert noise.std() / pull == pytest.approx(steps.noise, rel=0.05)


def test_less_noise_learns_faster_and_never_slower() -> None:
    rates = [goal.steps(SIZES, e).learning_rate for e in (0.1, 0.5, 1, 3, 8, 50)]
    assert rates == sorted(rates) and rates[0] < rates[2]
    assert goal.steps(SIZES, 3).noise > 2 * goal.steps(SIZES, 3, 1).noise
    many = goal.steps(np.array([1e6]), 3)
    assert many.batch_size == 4096 and many.learning_rate == pytest.approx(0.2)
    persons = goal.steps(SIZES, 3, rows_per_person=4)
    assert persons.noise == pytest.approx(4 * goal.steps(SIZES, 3).noise)


def hospitals(shares: tuple[float, ...] = ()) -> Dataset:
    rng = np.random.default_rng(3)
    rows = int(SIZES.sum()) * 2 + 600
    inputs = rng.uniform(-1, 1, (rows, 6)).astype(np.float32)
    logits = 2.2 * inputs @ np.array([1, -1, 0.8, 0.5, 0, 0]) - 1.0
    labels = (rng.random(rows) < 1 / (1 + np.exp(-logits))).astype(np.int32)
    names = {f"x{n}": SchemaColumn("number", bounds=(0, 1)) for n in range(6)}
    schema = Schema(names, "ill", ("no", "yes"), shares=shares)
    writers = np.repeat(np.arange(2 * len(SIZES)), np.tile(SIZES, 2))
    return Dataset(
        name="hospitals",
        train_inputs=inputs[600:],
        train_labels=labels[600:],
        test_inputs=inputs[:600],
        test_labels=labels[:600],
        num_classes=2,
        train_writers=writers.astype(np.int32),
        schema=schema,
    )


@pytest.mark.hole
def test_small_sites_get_a_useful_model_against_the_server(
    tmp_path: pathlib.Path,
) -> None:
    data = hospitals()
    base = ExperimentConfig(dataset="csv", total_epsilon=3.0, seed=1)
    route = goal.route_settings(base, data)
    config = resolve(ExperimentConfig(**{**vars(base), **route}), data)
    summary = run.train(config, tmp_path / "run", dataset=data)
    scores = summary["test_scores"]
    assert scores["auc"] > 0.72 and scores["log_loss"] < 0.69, scores
    assert summary["status"]["pld"] == "proved"
    assert summary["epsilon_spent"]["pld"] <= 3


@pytest.mark.hole
def test_stated_shares_are_where_training_starts_and_draw_noise_of_their_own() -> None:
    data = hospitals((0.7, 0.3))
    base = ExperimentConfig(dataset="csv", total_epsilon=3.0)
    route = goal.route_settings(base, data)
    assert route["class_shares"] == "0.7,0.3"
    roots, biases = [], []
    for shares in ("0.7,0.3", None):
        changed = {**vars(base), **route, "class_shares": shares}
        program = federation.build([resolve(ExperimentConfig(**changed), data)], data)
        roots.append(str(program.cells.root))
        params, _ = program.model.init(jax.random.key(0), data.test_inputs[:1])
        biases.append(np.exp(params["bias"]))
    assert roots[0] != roots[1]
    assert biases[0] / biases[0].sum() == pytest.approx([0.7, 0.3])
    assert biases[1].tolist() == [1, 1]


@pytest.mark.hole
def test_every_row_of_every_client_trains() -> None:
    """One row of each was kept to validate on, which nothing read; clients of one row
    trained nothing."""
    data = hospitals()
    base = ExperimentConfig(dataset="csv", total_epsilon=3.0)
    config = resolve(
        ExperimentConfig(**{**vars(base), **goal.route_settings(base, data)}), data
    )
    held = federation.build([config], data).data
    assert sorted(held.num_train[0]) == sorted([*SIZES, *SIZES])
    assert held.num_train.sum() == len(data.train_labels)
    assert not held.split.num_validation.any()


def test_shares_are_a_distribution_over_the_classes() -> None:
    text = to_toml(hospitals((0.7, 0.3)).schema)
    assert from_toml(text, "a.toml").shares == (0.7, 0.3)
    for wrong in ("[0.7]", "[0.7, 0.2]", "[1.2, -0.2]", "0.7", '["a", "b"]'):
        with pytest.raises(ValueError, match="shares must be"):
            from_toml(text.replace("[0.7, 0.3]", wrong), "a.toml")


@pytest.mark.hole
def test_a_schema_that_spent_privacy_on_its_shares_is_refused() -> None:
    """Its ε counts for every run; a reader that drops the key would hide it."""
    text = to_toml(hospitals((0.7, 0.3)).schema)
    text = text.replace("shares = ", "shares_epsilon = 0.5\nshares = ")
    with pytest.raises(ValueError, match="shares_epsilon"):
        from_toml(text, "a.toml")
