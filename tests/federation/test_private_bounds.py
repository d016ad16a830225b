"""Bounds that are bought: their law, their ε, and every claim that counts it (P22)."""

import dataclasses
import math
import pathlib
from typing import Any

import numpy as np
import pytest
from commands import assert_sentence, command, succeeds
from scipy import optimize, stats

from experiments.bought_bounds import with_bought_bounds
from fedsvp_jax import deploy
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.claims import planned_row, table
from fedsvp_jax.accounting.composition import composed_epsilon
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables import draft, table_file
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, from_toml, to_toml
from fedsvp_jax.data.tables.table import from_table
from fedsvp_jax.federation import Program, build, store_builder
from fedsvp_jax.mechanisms import discrete_gaussian, private_bounds
from fedsvp_jax.report import headline
from fedsvp_jax.run import published_scores

pytestmark = pytest.mark.hole
GRID = [-2.0, -1.0, 0.0, 1.0, 2.0]
EACH, DRAWS, DELTA = 0.2, 6, 1e-5


def chances(values: list[float], epsilon: float, rank: int) -> list[float]:
    """Of each number of the grid as the lower bound, by counting one by one."""
    weights = []
    for number in GRID:
        below = sum(value < number for value in values)
        through = sum(value <= number for value in values)
        missed = below - rank if below > rank else max(rank - through, 0)
        weights.append(math.exp(-epsilon * missed / 2))
    return [weight / sum(weights) for weight in weights]


def test_by_enumeration_one_row_moves_no_probability_by_more_than_e_to_the_epsilon():
    """All multisets of four numbers, and all neighbours; more than half is reached."""
    most = 0.0
    for rows in np.ndindex(5, 5, 5, 5):
        values = [GRID[row] for row in rows]
        given = np.log(chances(values, 1.0, 2))
        others = [values[1:], *([number, *values[1:]] for number in GRID)]
        for other in others:
            most = max(most, np.abs(given - np.log(chances(other, 1.0, 2))).max())
    assert 0.5 < most <= 1 + 1e-12


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 5.0])
def test_the_bounds_that_are_drawn_have_those_probabilities(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails when the noise is halved."""
    monkeypatch.setattr(private_bounds, "GRID", np.array(GRID))
    monkeypatch.setattr(private_bounds, "rows_beyond", lambda _: 2)
    values = [-1.5, -1.0, -0.5, 0.0, 0.0, 1.5, 1.75, 3.0]
    words = discrete_gaussian.seeded_words(54)
    drawn = [
        private_bounds.private_bounds(np.array([*values, np.nan]), epsilon, words=words)
        for _ in range(1500)
    ]
    low = np.array(chances(values, epsilon, 2))
    high = np.array(chances([-value for value in values], epsilon, 2))[::-1]
    pairs = np.outer(low, high)
    sorted_pairs = np.triu(pairs) + np.tril(pairs, -1).T  # a crossed pair is turned
    seen = np.zeros((5, 5))
    for pair in drawn:
        seen[GRID.index(pair[0]), GRID.index(pair[1])] += 1
    wanted = sorted_pairs * len(drawn)
    often = wanted > 5
    counts, expected = (
        np.append(part[often], part[~often].sum()) for part in (seen, wanted)
    )
    assert stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 0.001


def test_the_bounds_lie_at_their_rank_and_within_what_a_type_can_be():
    words = discrete_gaussian.seeded_words(1)
    rng = np.random.default_rng(0)
    for values in (rng.lognormal(6, 1.5, 5000), rng.integers(1950, 2024, 5000)):
        low, high = private_bounds.private_bounds(values.astype(float), 1.0, (0, 1e5))
        rank = private_bounds.rows_beyond(1.0)
        assert rank == math.ceil(2 * math.log(len(private_bounds.GRID) / 1e-3))
        assert (values < low).sum() <= 2 * rank and (values > high).sum() <= 2 * rank
        assert (values <= low).sum() > 0 and (values >= high).sum() > 0
    nobody = private_bounds.private_bounds(np.full(3, np.nan), 1.0, (0, 23.9), words)
    assert 0 <= nobody[0] <= nobody[1] <= 23.9
    with pytest.raises(ValueError, match=r"from 2\^-19"):
        discrete_gaussian.exponential_draw(np.arange(3), 1e-9, words)


NUMBER = SchemaColumn("number", bounds=(0.0, 1.0), fill=0.5)
BOUGHT = Schema(
    {"x": NUMBER, "y": NUMBER},
    "ill",
    ("no", "yes"),
    bounds_epsilon=EACH * DRAWS,
    bounds_draws=DRAWS,
)
SETTINGS: dict[str, Any] = {
    "dataset": "csv",
    "mechanism": "gaussian",
    "clipping": "per_example",
    "num_attributes": 1,
    "split": "by_position",
    "model": "logistic",
    "partition": "iid",
    "num_clients": 2,
    "num_hbc_clients": 0,
    "cohort_size": 2,
    "num_rounds": 3,
    "batch_size": 20,
    "delta": DELTA,
    "epsilon": 0.5,
}


def loaded(schema: Schema = BOUGHT, **changes: Any) -> Dataset:
    rng = np.random.default_rng(3)
    columns = {
        "x": rng.uniform(size=120),
        "y": rng.uniform(size=120),
        "ill": np.array(["no", "yes"])[rng.integers(2, size=120)],
    }
    return from_table(columns, schema=dataclasses.replace(schema, **changes))


def built(data: Dataset, **changes: Any) -> Program:
    return build([resolve(ExperimentConfig(**SETTINGS | changes), data)], data)


def without(data: Dataset) -> Dataset:
    assert data.schema is not None
    stated = dataclasses.replace(data.schema, bounds_epsilon=0.0, bounds_draws=0)
    return dataclasses.replace(data, schema=stated)


def composed(gaussian: float, epsilon: float, number: int, delta: float) -> float:
    """ε of a Gaussian of so much ε at δ, and of randomised responses: their sum over
    the number of responses that are true, which shares no code with the accountant.
    """

    def of_gaussian(mu: float, at: float) -> float:
        return float(
            stats.norm.cdf(mu / 2 - at / mu)
            - math.exp(at) * stats.norm.cdf(-mu / 2 - at / mu)
        )

    mu = optimize.brentq(lambda mu: of_gaussian(mu, gaussian) - delta, 1e-3, 20)
    true = np.arange(number + 1)
    mass = stats.binom.pmf(true, number, 1 / (1 + math.exp(-epsilon)))
    losses = (2 * true - number) * epsilon

    def excess(at: float) -> float:
        parts = [
            chance * of_gaussian(mu, at - loss)
            for chance, loss in zip(mass, losses, strict=True)
        ]
        return sum(parts) - delta

    return float(optimize.brentq(excess, 0, gaussian + number * epsilon + 1))


def test_every_claim_of_a_run_counts_the_bounds_that_were_bought():
    data = loaded()
    with_bounds, stated = built(data), built(without(data))
    spent, base = (
        planned_row(program.accounts[0])["epsilon_spent"]
        for program in (with_bounds, stated)
    )
    assert spent["basic"] == pytest.approx(base["basic"] + EACH * DRAWS)
    wanted = composed(base["pld"], EACH, DRAWS, DELTA)
    assert base["pld"] + 0.05 < spent["pld"] == pytest.approx(wanted, rel=2e-3)
    assert spent["pld"] <= spent["rdp"]
    claims = [claim for claim in table(with_bounds.accounts[0]) if claim.epsilon < 99]
    assert claims and all(claim.proved for claim in claims)
    for claim in claims:
        assert "6 bounds were bought at ε = 0.2 each" in claim.assumptions
    declared = built(loaded(), schema="s.toml").accounts[0].participation.assumptions
    assert "; categories and classes were declared" in declared
    account = with_bounds.accounts[0]
    np.testing.assert_allclose(account.by_client()["epsilon"], EACH * DRAWS)
    assert not any(risk["exact"] for risk in tradeoff.by_adversary(account).values())
    copies = account.other_costs.times(3)
    assert copies.bounds * copies.epsilon_per_bound == pytest.approx(3 * EACH * DRAWS)


@pytest.mark.parametrize("batches", ["shuffled", "poisson"])
def test_the_noise_that_is_solved_leaves_room_for_the_bounds(batches: str):
    promise = {"total_epsilon": 1.5, "solve": "noise", "batches": batches}
    promise["total_accounting"] = "pld"
    promise["relation"] = "add_remove"
    program, stated = (built(d, **promise) for d in (loaded(), without(loaded())))
    assert planned_row(program.accounts[0])["epsilon_spent"]["pld"] <= 1.5
    assert program.configs[0].epsilon < 0.99 * stated.configs[0].epsilon
    too_little = promise | {"total_epsilon": 0.2}
    with pytest.raises(ValueError, match=r"less than the bounds of the schema \(ε = "):
        built(loaded(), **too_little)


def test_a_promise_ends_a_clients_turns_earlier_by_the_bounds():
    promise = {"total_epsilon": 1.6, "total_accounting": "pld"}
    for data, uploads in ((without(loaded()), 3), (loaded(), 1)):
        allowance = built(data, **promise).cells.allowance
        costs = np.cumsum(np.asarray(allowance.costs)[0])
        assert (costs <= np.asarray(allowance.budget)[0]).sum() == uploads


def test_a_published_score_has_what_the_bounds_left():
    settings = {"publish_scores": True, "num_rounds": 1}
    std = []
    for data in (loaded(), without(loaded())):
        program = built(data, total_epsilon=2.0, **settings)
        published_scores.check(program, None, None)
        promise = {"method": "promise by pld", "epsilon": 2.0, "assumptions": "one"}
        promise["delta"] = DELTA
        summary = {"guarantees": [promise], "params_sha256": "one"}
        scores = published_scores.noised_scores(
            np.full((24, 2), 0.5),
            np.zeros(24, int),
            ("no", "yes"),
            {},
            program,
            summary,
        )
        std.append(scores["noise_std"] / 4)  # eight levels, and two rows
    gaussian = composed_epsilon("gdp", std[0] ** -2, DELTA)
    wanted = composed(gaussian, EACH, DRAWS, DELTA)
    assert wanted == pytest.approx(2.0, rel=2e-3)
    assert composed_epsilon("gdp", std[1] ** -2, DELTA) == pytest.approx(2.0, rel=1e-5)
    with pytest.raises(ValueError, match=r"less than the bounds of the schema \(ε = 1"):
        built(loaded(), total_epsilon=1.0, **settings)


def test_who_does_not_count_the_bounds_refuses_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = loaded()
    with pytest.raises(ValueError, match="hide one row or person, and this run is to"):
        built(data, clipping="update_clip")
    config = resolve(ExperimentConfig(**SETTINGS), data)
    own = deploy.own_data(config, data)
    policy = deploy.make_policy(
        ExperimentConfig(**SETTINGS | {"clipping": "update_clip"}), min_num_examples=20
    )
    with pytest.raises(ValueError, match="a client's log does not count their ε"):
        deploy.Client(policy, own, tmp_path / "state")
    schema = tmp_path / "schema.toml"  # of a site whose training is its own
    schema.write_text(to_toml(BOUGHT))
    stated = ExperimentConfig(
        **SETTINGS | {"clipping": "update_clip", "dataset": "csv"}, schema=str(schema)
    )
    with pytest.raises(ValueError, match="a client's log does not count their ε"):
        deploy.make_policy(stated, min_num_examples=20)
    monkeypatch.setattr(store_builder.sources, "load", lambda *_: data)
    with pytest.raises(ValueError, match="whose ε a store does not keep"):
        store_builder.store_source(config)


def test_a_schema_says_what_was_spent_and_for_whom():
    text = to_toml(BOUGHT)
    assert "[private_bounds]\nepsilon = 1.2000000000000002\ndraws = 6\nunit" in text
    assert from_toml(text, "s") == BOUGHT and BOUGHT.from_records == ()
    persons = dataclasses.replace(BOUGHT, person="id", unit="person")
    assert persons.from_records == ("the bounds, which hide one row alone,",)
    assert dataclasses.replace(persons, bounds_unit="person").from_records == ()
    with pytest.raises(ValueError, match="epsilon and draws must both be above 0"):
        dataclasses.replace(BOUGHT, bounds_draws=0)
    told = headline.filled(
        "unprotected",
        {
            "public_test": False,
            "num_test_examples": 9,
            "num_train_examples": 21,
            "validation_examples": 0,
            "influence_filter": "none",
            "publish_scores": False,
            "bounds_epsilon": 1.2,
        },
    )
    assert "by the schema's bounds alone, bought at ε = 1.2" in told


def test_of_each_person_one_row_is_asked():
    columns = {
        "id": [f"p{n // 4}" for n in range(4000)],
        "dose": [float(n % 4 * 1000 + n // 4 % 50) for n in range(4000)],
        "ill": ["no", "yes"] * 2000,
    }
    drafted = draft.proposed(columns, label="ill", client=None, source="s").schema
    table_of_texts = table_file.columns_of(columns, "s")
    bought = with_bought_bounds(drafted, table_of_texts, 4.0)
    assert bought.person == "id" and bought.bounds_unit == "person"
    assert bought.columns["dose"].bounds[1] < 60  # the first row of each has 0 to 49
    with pytest.raises(ValueError, match=r"about \d+ rows beyond .* of 1000, and"):
        with_bought_bounds(drafted, table_of_texts, 0.05)


@pytest.mark.hole
def test_no_bounds_are_bought_beyond_which_more_than_1_of_20_rows_lie() -> None:
    """Of 1,495 rows and 4 columns 310 lay beyond each bound, and no word was said."""
    rows = 1495
    columns = {f"x{n}": (np.arange(rows) * 7 + n) % 46 + 51.0 for n in range(4)}
    columns |= {"ill": ["no", "yes"] * (rows // 2) + ["no"]}
    drafted = draft.proposed(columns, label="ill", client=None, source="s").schema
    table = table_file.columns_of(columns, "s")
    for epsilon, beyond in ((1, 310), (4, 78)):
        with pytest.raises(ValueError, match=rf"{beyond} rows beyond .* 1495, and at"):
            with_bought_bounds(drafted, table, epsilon)
    # About 1,550 × columns / ε, as the help and docs/own_data.md have it.
    bought = with_bought_bounds(drafted, table, 1570 * 4 / rows)
    assert bought.bounds_draws == 8
    assert all(50 <= c.bounds[0] < c.bounds[1] <= 97 for c in bought.columns.values())


def test_bought_bounds_are_confirmed_without_their_names(
    tmp_path: pathlib.Path,
) -> None:
    rng, schema = np.random.default_rng(0), tmp_path / "schema.toml"
    data = tmp_path / "data.csv"
    rows = (f"{n % 80},{rng.integers(2)},{'ab'[n % 2]}\n" for n in range(1000))
    data.write_text("age,male,ill\n" + "".join(rows))
    drafted = ("experiments.schema", str(data), f"--output={schema}")
    assert_sentence(command(*drafted, "--bounds_epsilon=0.1"), "raise it, leave col")
    succeeds(*drafted, "--bounds_epsilon=2")
    text = schema.read_text()
    assert "[private_bounds]\nepsilon = 2.0\ndraws = 2\n" in text
    assert text.count("\nfrom_data = ") == 3  # of age's fill, male and the classes
    confirm = ("experiments.schema", f"--confirm={schema}")
    refused = command(*confirm)
    assert_sentence(refused, "may still say what the records said: change them")
    assert "ill: classes" in refused.stdout and "age" not in refused.stdout
    succeeds(*confirm, "--known=ill")
    assert "[private_bounds]\nepsilon = 2.0" in schema.read_text()
