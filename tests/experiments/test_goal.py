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
    assert goal.steps(np.array([1e6]), 3).batch_size == 4096
    persons = goal.steps(SIZES, 3, rows_per_person=4)
    assert persons.noise == pytest.approx(4 * goal.steps(SIZES, 3).noise)


def test_rounds_grow_until_the_noise_of_the_run_is_what_it_may_be() -> None:
    """60 rounds at .2 were too few for columns of narrow range."""

    def moved(steps: goal.Steps) -> float:
        return steps.noise * steps.num_rounds * steps.learning_rate / (2 * (1 - 0.9))

    rows = 600, 1200, 9000
    few, more, most = (goal.steps(np.array([n]), 3, columns=14) for n in rows)
    assert few.num_rounds == 60 and few.learning_rate < 0.2
    assert 60 < more.num_rounds < 240
    assert more.learning_rate == pytest.approx(0.2, rel=0.01)
    assert most.num_rounds == 240 and 0.2 < most.learning_rate < 0.9
    assert [moved(s) for s in (few, more, most)] == pytest.approx([0.25] * 3, rel=0.01)
    free = goal.steps(np.array([9e3]), 50, columns=14)
    assert free.learning_rate == pytest.approx(2 * 1.9 / (2 * math.sqrt(15) / 2))
    wide = goal.steps(np.array([9e3]), 50, columns=10**4)
    assert wide.learning_rate == pytest.approx(0.2)
    named = goal.steps(np.array([600]), 3, columns=14, num_rounds=120)
    assert named.num_rounds == 120 and moved(named) == pytest.approx(0.25)
    capped = goal.steps(np.array([9e3]), 3, columns=14, num_rounds=60)
    assert capped.learning_rate == pytest.approx(0.2)


def test_the_fastest_rate_is_within_what_momentum_keeps_stable() -> None:
    """By the eigenvalues of the steps' matrix, of rows at a corner of [−1, 1]^q."""
    rng, q, clip, momentum = np.random.default_rng(0), 14, 2.0, 0.9
    rows = np.append(rng.choice([-1.0, 1.0], (1, q)).repeat(50, 0), np.ones((50, 1)), 1)
    clipped = rows * np.minimum(1, clip / np.linalg.norm(rows, axis=1))[:, None]
    largest = np.linalg.eigvalsh(clipped.T @ rows / 50).max() / 2  # 1/2: of the logits
    rate = goal.steps(np.array([9e3]), 50, columns=q).learning_rate
    matrix = np.array([[1 + momentum - rate * largest, -momentum], [1, 0]])
    assert abs(np.linalg.eigvals(matrix)).max() <= 1 + 1e-6
    matrix[0, 0] -= 0.01 * rate * largest
    assert abs(np.linalg.eigvals(matrix)).max() > 1


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
