"""A person as the unit of privacy: drawn, dealt, divided, bounded and charged (P21)."""

import dataclasses
import math
import pathlib
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deployed import ROWS
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy import integrate, optimize, stats

from fedsvp_jax import deploy
from fedsvp_jax.attacks import audit_training
from fedsvp_jax.attacks.epsilon_bounds import lower_bounds
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, from_toml, to_toml
from fedsvp_jax.data.tables.table import from_table
from fedsvp_jax.federation import Program, build
from fedsvp_jax.federation.loading import client_parts
from fedsvp_jax.mechanisms import MechanismConfig, make_mechanism, subsampling
from fedsvp_jax.mechanisms.clipping import OF_A_PERSON
from fedsvp_jax.round import local_training
from fedsvp_jax.run.trainer import Trainer

PERSONS, MOST, DELTA = 120, 3, 1e-5
NUMBER = SchemaColumn("number", bounds=(0.0, 1.0))
SCHEMA = Schema(
    {"x": NUMBER, "age": NUMBER}, "ill", ("no", "yes"), person="id", unit="person"
)
SCHEMA = dataclasses.replace(SCHEMA, rows_per_person=MOST)
SETTINGS: dict[str, Any] = {
    "dataset": "csv",
    "mechanism": "gaussian",
    "clipping": "per_example",
    "relation": "add_remove",
    "batches": "poisson",
    "local_steps": 2,
    "num_attributes": 1,
    "split": "by_position",
    "model": "logistic",
    "num_clients": 3,
    "cohort_size": 3,
    "num_rounds": 4,
    "batch_size": 10,
    "delta": DELTA,
    "epsilon": 3.0,
    "client_chunk_size": 1,
}


def table(persons: int = PERSONS) -> dict[str, np.ndarray]:
    """Each person has 1 to 5 rows in one of four hospitals, in a random order."""
    rng = np.random.default_rng(7)
    whose = rng.permutation(np.repeat(np.arange(persons), 1 + np.arange(persons) % 5))
    return {
        "id": np.array([f"p{person}" for person in whose]),
        "hospital": np.array(list("abcd"))[whose % 4],
        "x": rng.uniform(0, 1, len(whose)),
        "age": rng.uniform(0, 1, len(whose)),
        "ill": np.array(["no", "yes"])[rng.integers(2, size=len(whose))],
    }


def loaded(**changes: Any) -> Dataset:
    """The table with its schema, without the warning of the rows left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = dataclasses.replace(SCHEMA, **changes)
        drop = [] if schema.client else ["hospital"]
        drop += [] if schema.person else ["id"]
        return from_table(table(), schema=schema, drop=drop)


def built(data: Dataset | None = None, **changes: Any) -> Program:
    data = data or loaded()
    return build([resolve(ExperimentConfig(**SETTINGS | changes), data)], data)


def whose_of(data: Dataset) -> np.ndarray:
    assert data.train_persons is not None
    return data.train_persons


def test_a_table_keeps_so_many_rows_of_a_person_on_one_side_of_the_test():
    written = table()
    written["x"] = np.arange(len(written["x"])) / len(written["x"])  # names the row
    with pytest.warns(UserWarning, match=r"72 of 360 rows are left out"):
        data = from_table(written, schema=SCHEMA, drop=["hospital"])
    rows = [
        np.rint((inputs[:, 0] + 1) / 2 * 360).astype(int)
        for inputs in (data.train_inputs, data.test_inputs)
    ]
    train, test = (written["id"][side] for side in rows)
    assert not set(train) & set(test)
    kept, counts = np.unique(np.concatenate([train, test]), return_counts=True)
    _, present = np.unique(written["id"], return_counts=True)
    assert len(kept) == PERSONS  # nobody is left out
    np.testing.assert_array_equal(counts, np.minimum(present, MOST))
    assert len(set(test)) == round(0.2 * PERSONS)
    pairs = {*zip(whose_of(data).tolist(), train.tolist(), strict=True)}
    assert len(pairs) == len(set(train)) and data.rows_per_person == MOST


@pytest.mark.parametrize("partition", ["iid", "by_writer"])
def test_all_rows_of_a_person_are_at_one_client_for_training_or_validation(
    partition: str,
):
    data = loaded(client="hospital" if partition == "by_writer" else None)
    how = {"iid": "stratified", "by_writer": "by_position"}[partition]
    program = built(data, partition=partition, split=how, train_fraction=0.7, seed=3)
    split, whose = program.data.split, whose_of(data)
    sides = []
    for rows, counts in (
        (split.train, split.num_train),
        (split.validation, split.num_validation),
    ):
        for client in range(3):
            part = np.asarray(rows[0, client])[: int(counts[0, client])]
            sides.append(set(whose[part].tolist()))
    assert sum(map(len, sides)) == len(set.union(*sides))
    share = sum(map(len, sides[:3])) / sum(map(len, sides))
    assert share == pytest.approx(0.7, abs=0.03)


def test_a_clients_rows_are_those_of_its_persons_in_ascending_order():
    data = loaded()
    config = resolve(ExperimentConfig(**SETTINGS | {"partition": "iid"}), data)
    whose = whose_of(data)
    for part in client_parts(config, data):
        np.testing.assert_array_equal(part, np.flatnonzero(np.isin(whose, whose[part])))


def test_two_persons_make_a_client():
    """One of them trains, the other validates, whatever rows they have."""
    rows, whose = np.ones((30, 2), np.float32), np.arange(30) // 3
    labels = (np.arange(30) % 2).astype(np.int32)
    data = Dataset(
        *("few", rows, labels, rows, labels),
        num_classes=2,
        train_writers=(whose >= 2).astype(np.int32) + (whose >= 4),
        train_persons=whose,
        rows_per_person=3,
    )
    of_two = {"partition": "by_writer", "dataset": "npz", "batch_size": 3}
    sizes = built(data, **of_two).data.num_train[0]
    assert sorted(sizes.tolist()) == [3, 3, 15]


@pytest.mark.parametrize("padding", [0, 7])
def test_a_secret_batch_holds_all_rows_of_a_person_or_none(padding: int):
    """Each person is drawn with B/|D|, independently of all others."""
    whose = np.array([5, 5, 9, 2, 9, 9, 7, 2], np.int32)
    ids = jnp.asarray(np.pad(whose, (0, padding), constant_values=9))
    member = jnp.arange(len(ids)) < len(whose)
    _, persons = jnp.unique(ids, return_inverse=True, size=len(ids))

    def drawn(key: jax.Array) -> jax.Array:
        position, taken = local_training.poisson_batch(
            key, member, batch_size=2, places=8, persons=persons
        )
        return jnp.zeros(len(ids)).at[position].add(taken)

    batches = np.asarray(
        jax.jit(jax.vmap(drawn))(jax.random.split(jax.random.key(1), 4000))
    )
    assert batches.max() == 1 and not batches[:, len(whose) :].any()
    columns = []
    for person in np.unique(whose):
        its = batches[:, : len(whose)][:, whose == person]
        assert (its == its[:, :1]).all()
        columns.append(its[:, 0])
    seen = np.stack(columns)
    assert np.abs(seen.mean(1) - 0.25).max() < 5 * math.sqrt(0.25 * 0.75 / 4000)
    others = np.corrcoef(seen) - np.eye(len(seen))
    assert np.abs(others).max() < 5 / math.sqrt(4000)
    # Without persons the same rows are drawn one by one, as they always were.
    alone, _ = local_training.poisson_batch(
        jax.random.key(1), member, batch_size=2, places=8
    )
    each = jnp.arange(len(ids), dtype=jnp.int32)
    again, _ = local_training.poisson_batch(
        jax.random.key(1), member, batch_size=2, places=8, persons=each
    )
    np.testing.assert_array_equal(alone, again)


def divergence(shift: float, std: float, rate: float, epsilon: float) -> float:
    """The larger hockey-stick of (1 − q)N(0, s²) + qN(a, s²) and N(0, s²), by sums."""
    far = np.linspace(-12 * std, shift + 12 * std, 400_001)
    out = stats.norm.pdf(far, 0, std)
    mixed = (1 - rate) * out + rate * stats.norm.pdf(far, shift, std)
    both = (mixed, out), (out, mixed)
    return max(
        float(integrate.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), far))
        for p, q in both
    )


def test_the_ledger_counts_the_noise_that_is_drawn_against_all_rows_of_a_person():
    """By numerical integration of one step, and by dp-accounting of all."""
    program = built(local_steps=1, num_rounds=3)
    trainer = Trainer(program)
    state, account, std = trainer.initial_state(), program.accounts[0], math.nan
    spent: list[float] = []
    for number in range(3):
        state, metrics = trainer.advance(state, number, 1)
        clients = jax.tree.map(lambda leaf: leaf[0, 0], metrics.clients)
        account = account.record(clients.client_id, clients.noise, clients.weight)
        spent.append(account.epsilon_spent("pld", view="server"))
        std = float(clients.noise.step_noise_std[0])
    config, sizes = program.configs[0], program.data.num_train[0]
    shift = MOST * config.l2_norm_clip / config.batch_size  # all rows, all aligned
    rate = config.batch_size / int(sizes.min())
    exact = optimize.brentq(
        lambda epsilon: divergence(shift, std, rate, epsilon) - DELTA, 0, 20
    )
    assert spent[0] == pytest.approx(exact, rel=2e-3)
    step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(std / shift))
    accountant = PLDAccountant().compose(dp_event.SelfComposedDpEvent(step, 3))
    assert spent[2] == pytest.approx(accountant.get_epsilon(DELTA), rel=2e-3)


@pytest.mark.parametrize("batches", ["poisson", "shuffled"])
def test_an_audit_of_a_persons_rows_comes_near_what_is_claimed(batches: str):
    """The rows of one person push one weight together; without m the noise is too
    small, and the lower bound lies above the claim."""
    secret, most = batches == "poisson", 4
    size = 8 if secret else 5
    config = MechanismConfig(
        **{"epsilon": 3.0, "delta": DELTA, "l2_norm_clip": 1.0, "num_clients": 1},
        **{"cohort_size": 1, "batch_size": 5, "num_rounds": 1, "local_epochs": 1},
        **{"clipping": "per_example", "relation": "add_remove", "batches": batches},
        local_steps=1 if secret else None,
        min_num_examples=size,
        max_num_examples=size,
        rows_per_person=most,
    )

    def audited(settings: MechanismConfig) -> float:
        recipe = local_training.TrainingRecipe(
            batch_size=5,
            local_epochs=1,
            gradient="per_example",
            places=size if secret else None,
            local_steps=settings.local_steps,
        )
        play = audit_training.training_player(
            make_mechanism("gaussian", settings),
            recipe,
            local_training.TrainingRates(0.1, 1.0, 0.0, 0.0),
            audit_training.neighbours(
                size, most, 2.0, left_out=True, others_push=not secret
            ),
            1,
            1500,
            rows_per_person=most,
        )
        scores = play(jax.random.key(5))
        found = lower_bounds(
            scores.inside[0],
            scores.outside[0],
            delta=DELTA,
            equal_noise=not secret,
        )
        return float(max(found.values()))

    assert (0.15 if secret else 0.5) * 3.0 < audited(config) < 3.0
    assert audited(dataclasses.replace(config, rows_per_person=None)) > 3.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"clipping": "paper", "batches": "shuffled"},
            "hides no person.*one record",
        ),
        (
            {"mechanism": "dp_fedavg", "clipping": "paper"},
            'hides no person.*"add or remove a client',
        ),
        ({"clipping": "update_clip"}, "hides no person.*relation=replace_one"),
        ({"clipping": "attribute_records"}, "hides no person.*private attribute"),
        ({"partition": "dirichlet"}, "partition must be iid or by_writer.*dirichlet"),
        ({"influence_filter": "join"}, "influence_filter must be none.*stay together"),
        ({"corrupted_share": 0.5}, "corrupted_share must be 0.0"),
        ({"num_attributes": 2, "split": "stratified"}, "split must be by_position"),
    ],
    ids=str,
)
def test_what_hides_no_person_is_refused(changes: dict[str, Any], message: str):
    if changes.get("clipping", "per_example") != "per_example":
        changes = {"batches": "shuffled", "local_steps": None, **changes}
    with pytest.raises(ValueError, match=message):
        built(**changes)


@pytest.mark.parametrize("how", ["update_clip", "weight_clip", "per_example"])
def test_every_claim_says_all_rows_of_a_person(how: str):
    program = built(
        clipping=how, relation="replace_one", batches="shuffled", local_steps=None
    )
    assert OF_A_PERSON in program.mechanism.basis.relation
    assert program.accounts[0].proved
    bare = built(mechanism="none", batches="shuffled", local_steps=None)
    assert bare.mechanism.basis.relation == "none"


@pytest.mark.hole
def test_ids_that_repeat_are_warned_of_where_the_unit_is_a_row():
    """The run said nothing: of a person with five rows the ε is another."""
    ids = dataclasses.replace(SCHEMA, person=None, unit="row")
    columns = {**ids.columns, "id": SchemaColumn("drop")}
    ids = dataclasses.replace(ids, columns=columns)
    with pytest.warns(UserWarning, match=r"values of column id repeat.*\[person\] col"):
        data = from_table(table(), schema=ids, drop=["hospital"])
    assert "values of column id repeat" in data.notices[0]  # which a run's page lists
    client = from_table(
        table(), schema=dataclasses.replace(ids, unit="client"), drop=["hospital"]
    )
    assert client.notices == ()
    with pytest.warns(UserWarning) as said:  # of other things: each person is a client
        from_table(
            table(), schema=dataclasses.replace(ids, client="id"), drop=["hospital"]
        )
    assert ["clients train nothing" in str(warning.message) for warning in said] == [
        True
    ]


@pytest.mark.hole
@pytest.mark.parametrize("rows", [1, MOST])
def test_a_person_at_two_clients_is_refused(rows: int):
    """Of one row per person, one was drawn from both hospitals' rows and passed."""
    written = table()
    written["hospital"][np.flatnonzero(written["id"] == "p4")[0]] = "b"
    schema = dataclasses.replace(SCHEMA, client="hospital", rows_per_person=rows)
    with pytest.raises(ValueError, match=r"1 of 120 persons .* at .* and .*: no") as e:
        from_table(written, schema=schema)
    assert {"a", "b"} < set(str(e.value).replace(":", "").split())
    assert "p4" not in str(e.value)  # whose rows they are stays with the hospitals


def test_a_person_at_two_clients_of_a_data_set_in_memory_is_refused():
    written = dataclasses.replace(loaded(client="hospital"), writer_names=None)
    writers = np.array(written.train_writers)
    whose = whose_of(written)
    several = np.flatnonzero(np.bincount(whose)[whose] > 1)[0]
    writers[several] = (writers[several] + 1) % 4
    roaming = dataclasses.replace(written, train_writers=writers)
    with pytest.raises(ValueError, match=r"1 of 96 persons .* at \d and \d: no"):
        built(roaming, partition="by_writer")


@pytest.mark.hole
def test_a_person_at_two_clients_is_refused_before_rows_are_drawn():
    """With rows = 1 one row was drawn, and 4,977 of 6,127 such persons passed."""
    written = table()
    written["hospital"][np.flatnonzero(written["id"] == "p4")[0]] = "b"
    schema = dataclasses.replace(SCHEMA, client="hospital", rows_per_person=1)
    with pytest.raises(ValueError, match=r"1 of 120 persons have rows .* at a and b"):
        from_table(written, schema=schema)
    with pytest.warns(UserWarning, match="240 of 360 rows are left out"):
        from_table(written, schema=schema, client="none")


def test_a_person_on_both_sides_of_a_stated_test_is_refused():
    written = table() | {"split": np.array(["train", "test"])[np.arange(360) % 2]}
    with pytest.raises(ValueError, match="persons on both sides, the first"):
        from_table(written, schema=SCHEMA, drop=["hospital"])


def test_a_row_without_a_person_is_refused():
    written = table()
    written["id"][7] = ""
    with pytest.raises(ValueError, match=r"column id names no person .* in row 8"):
        from_table(written, schema=SCHEMA, drop=["hospital"])


PERSON = '[person]\ncolumn = "id"\nrows = 2\n'
HEAD = 'schema = 1\n[label]\ncolumn = "ill"\nclasses = ["no", "yes"]\n'


def test_a_schema_names_the_person_and_so_the_unit():
    read = from_toml(HEAD + PERSON, "s")
    assert (read.person, read.rows_per_person, read.unit) == ("id", 2, "person")
    assert from_toml(to_toml(read), "s") == read
    client = from_toml(
        HEAD.replace("[label]", 'unit = "client"\n[label]') + PERSON, "s"
    )
    assert client.unit == "client"
    for wrong, message in (
        (
            HEAD.replace("[label]", 'unit = "person"\n[label]'),
            "needs .person. with col",
        ),
        (HEAD + "[person]\nrows = 2\n", "needs .person. with column"),
        (HEAD + PERSON.replace("2", "0"), "rows_per_person must be at least 1, got 0"),
        (HEAD + PERSON.replace("2", "true"), "rows_per_person must be an integer"),
        (HEAD.replace("[label]", "person = 3\n[label]"), "person: it must be a table"),
        (HEAD + PERSON + "most = 3\n", "person: "),
    ):
        with pytest.raises(ValueError, match=message):
            from_toml(wrong, "s")


def test_a_data_set_says_how_many_rows_a_person_has():
    data = loaded()
    with pytest.raises(ValueError, match="rows_per_person must be at least 3"):
        dataclasses.replace(data, rows_per_person=2)
    with pytest.raises(ValueError, match="rows_per_person needs train_persons"):
        dataclasses.replace(data, train_persons=None)
    fewer = dataclasses.replace(data, rows_per_person=4)
    assert fewer.fingerprint != data.fingerprint


def test_a_persons_column_is_no_feature_whatever_the_schema_says():
    columns = {**SCHEMA.columns, "id": NUMBER}
    with pytest.warns(UserWarning, match="rows are left out"):
        data = from_table(
            table(),
            schema=dataclasses.replace(SCHEMA, columns=columns),
            drop=["hospital"],
        )
    assert data.example_shape == loaded().example_shape == (2,)


def test_a_batch_has_room_for_persons_who_come_together():
    """Sums of person by person, drawn 20,000 times, outgrow M as often as is said."""
    places = subsampling.poisson_places(20, 400, 10, rows_per_person=8)
    assert subsampling.poisson_places(20, 400, 10) < places < 400
    assert subsampling.poisson_places(400, 400, 10, rows_per_person=7) == 400
    persons = np.random.default_rng(0).random((20_000, 50)) < 20 / 400
    assert (8 * persons.sum(1)).max() <= places


def test_a_deployed_client_hides_a_person_or_is_refused(tmp_path: pathlib.Path):
    shared = {
        "dataset": "csv",
        "clipping": "update_clip",
        "mechanism": "gaussian",
        "model": "logistic",
        "delta": DELTA,
        "num_clients": 3,
        "cohort_size": 3,
        "num_hbc_clients": 0,
        "num_attributes": 1,
        "batch_size": 10,
        "partition": "iid",
    }
    for relation in ("replace_one", "add_remove"):
        config = resolve(ExperimentConfig(**shared, relation=relation), loaded())
        policy = deploy.make_policy(config, min_num_examples=20)
        data = deploy.own_data(policy.training, loaded())
        if relation == "add_remove":
            with pytest.raises(ValueError, match=r'hides no person.*"add or remove'):
                deploy.Client(policy, data, tmp_path / relation)
        else:
            client = deploy.Client(policy, data, tmp_path / relation)
            assert client.num_examples == int(data.num_train[0, 0])
    config = resolve(ExperimentConfig(**shared | ROWS | {"batch_size": 500}), loaded())
    for rows, words in ((None, "hides no person"), (2, "keep, 3"), (3, "")):
        policy = deploy.make_policy(config, min_num_examples=20, rows_per_person=rows)
        data = deploy.own_data(policy.training, loaded())
        if words:
            with pytest.raises(ValueError, match=words):
                deploy.Client(policy, data, tmp_path / words)
        else:
            _ = deploy.Client(policy, data, tmp_path / "three")
            # The same ε of three rows takes three times the noise on a gradient.
            zeros, stds = [np.zeros(2, np.float32)], []
            for made in (policy, deploy.make_policy(config, min_num_examples=20)):
                _, _, info = made.clip_and_noise(
                    zeros,
                    {},
                    key=None,
                    num_examples=20,
                    contribution_ratio=1,
                    round_num=0,
                    params=zeros,
                )
                stds.append(float(info.noise_std))
            assert stds[0] == pytest.approx(3 * stds[1])


def test_rows_of_a_table_of_people_who_agreed_are_persons_of_their_own():
    """They lack the column of persons, and do not count among those that are kept."""
    agreed = {name: values[:50] for name, values in table().items() if name != "id"}
    agreed["x"] = agreed["x"][::-1]  # other people's
    with pytest.warns(UserWarning, match="72 of 410 rows are left out"):
        data = from_table(table(), schema=SCHEMA, drop=["hospital"], test=agreed)
    assert len(data.test_labels) == 50 and len(data.train_labels) == 360 - 72
