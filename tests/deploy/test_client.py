"""A deployed federation against the simulator: five rounds on digits."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deployed import ROWS, UPDATE_CLIP
from small_runs import digits, small

from fedsvp_jax import federation, models
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.deploy import (
    Client,
    Refused,
    Seeded,
    Site,
    Trained,
    data_of,
    make_policy,
    own_data,
)
from fedsvp_jax.federation import plan
from fedsvp_jax.federation.federated_data import FederatedData, federate
from fedsvp_jax.run import records
from fedsvp_jax.run.trainer import Trainer

CASES: dict[str, dict[str, Any]] = {
    "fedsva": {"mechanism": "fedsva"},
    "nbafl": {"mechanism": "nbafl"},
    "analytic": UPDATE_CLIP,
    "attribute": UPDATE_CLIP
    | {"clipping": "attribute_records", "relation": "replace_one"}
    | {"private_from": 1},
    "rows": ROWS | {"batch_size": 1000, "learning_rate_schedule": "cosine"},
}
COUNTED = ("uploads", "epsilon", "delta")


def least_examples(config: Any, program: federation.Program) -> float:
    return plan.sizes(config, program.data)["min_num_examples"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_seeded_clients_end_with_the_simulators_model_and_ledger(
    name: str, tmp_path: pathlib.Path
) -> None:
    sizes = {"num_clients": 3, "cohort_size": 3, "class_share": 0.1}
    config = small(**sizes | {"paired_noise": True} | CASES[name])  # as `Seeded` draws
    program = federation.build([config], digits())
    trainer = Trainer(program)
    state = trainer.initial_state()
    (account,) = program.accounts
    for index in range(config.num_rounds):
        state, metrics = trainer.advance(state, index, 1)
        account = records.record_round(account, cell_of(metrics, (0, 0)))
    least = least_examples(config, program)
    filled = min(
        config.batch_size, program.data.split.train.shape[-1]
    )  # nobody has more
    config = dataclasses.replace(config, batch_size=filled)
    made, clients = make_policy(config, min_num_examples=least), []
    for number in range(3):
        log, data = tmp_path / f"{number}.json", data_of(program.data, number)
        seeded = Seeded(config.seed, number)
        clients.append(Client(made, data, log, randomness=seeded))
        clients[-1].begin()
    weights = np.asarray([client.num_examples for client in clients], np.float32)
    arrays = clients[0].initial_arrays
    for round_num in range(1, config.num_rounds + 1):
        uploads = [client.answer(arrays, round_num)[0] for client in clients]
        arrays = [
            np.tensordot(weights / weights.sum(), np.stack(leaves), axes=1)
            for leaves in zip(*uploads, strict=True)
        ]
    wanted = [np.asarray(leaf)[0] for leaf in jax.tree.leaves(state.params)]
    for got, leaf in zip(arrays, wanted, strict=False):
        np.testing.assert_allclose(got, leaf, rtol=2e-6, atol=2e-6)
    simulated = account.arrays()
    for number, client in enumerate(clients):
        own = client.site.read().sums
        for key in COUNTED:
            np.testing.assert_allclose(own[key][0], simulated[key][number], rtol=1e-6)
        seen = own["precision"][0][0], simulated["precision"][0][number]
        np.testing.assert_allclose(*seen, rtol=1e-6)
    with pytest.raises(Refused, match="not one of the 5 rounds"):
        clients[0].answer(arrays, 6)


@pytest.mark.hole
def test_a_private_query_on_scales_of_the_records_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    """One private record moved the public weights, which leave without noise."""
    config = small(num_clients=3, cohort_size=3, class_share=0.1, **CASES["attribute"])
    program = federation.build([config], digits())
    made = make_policy(config, min_num_examples=least_examples(config, program))
    data = data_of(program.data, 0)._replace(from_records=("bounds of a",))
    with pytest.raises(ValueError, match="bounds of a were taken from the records"):
        Client(made, data, tmp_path / "log")


def client_of_rows(folder: pathlib.Path, model: Any = None, **data: Any) -> Client:
    """Its upload is the gradient of a linear model."""
    changes = {"batch_size": 200, "model": "logistic", "l2_norm_clip": 0.01}
    config = small(**CASES["rows"] | changes)
    made = make_policy(config, min_num_examples=20, max_num_examples=200)
    images = digits()
    parts = ("train_inputs", "test_inputs")
    flat = {
        name: np.float32(getattr(images, name)).reshape(-1, 64) / 255 for name in parts
    }
    program = federation.build([config], dataclasses.replace(images, **flat))
    own = data_of(program.data, 0)._replace(**data)
    return Client(made, own, folder / "log", model=model, randomness=Seeded(0, 0))


@pytest.mark.hole
def test_a_gradient_of_rows_on_scales_of_the_records_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    """One row moved the features of all, and the log said proved of one row."""
    with pytest.raises(ValueError, match="bounds of a were taken from the records"):
        client_of_rows(tmp_path, from_records=("bounds of a",))


@pytest.mark.hole
def test_a_clip_does_not_rest_on_what_a_model_of_ones_own_says_of_its_gradients(
    tmp_path: pathlib.Path,
) -> None:
    """Its rows' gradients were taken as short as it said, and none was clipped."""
    linear = models.make_model("logistic", num_classes=10)
    own = linear._replace(gradient_scale=lambda x: jnp.full(len(x), 1e-6))
    client = client_of_rows(tmp_path, own)
    gradient = client.train(client.initial_arrays, 1).arrays
    norm = np.linalg.norm(np.concatenate([leaf.ravel() for leaf in gradient]))
    assert norm <= client.policy.config.l2_norm_clip * client.num_examples / 200


# Of the client's own examples, `fingerprint` as version 0.3.0 computed it.
OF_0_3_0 = {
    "own_data": "1fd1de823a6a1f2de540f30f8bdab97bdc2d5ed4071331bcd62f764133e316d6",
    "data_of": "c7c960ec8710a0f7f7cab6921f0639c91235f2e2401ddf09fa5b909f279c2661",
}


@pytest.mark.hole
@pytest.mark.parametrize("which", OF_0_3_0)
def test_a_log_that_0_3_0_began_goes_on(which: str, tmp_path: pathlib.Path) -> None:
    """It was bound by another hash than the later version's, which refused it."""
    told = UPDATE_CLIP | {"mechanism": "gaussian", "model": "logistic"}
    sizes = {"num_clients": 2, "cohort_size": 2, "num_hbc_clients": 0, "batch_size": 2}
    config = ExperimentConfig(
        **{"dataset": "digits", "partition": "iid", "num_attributes": 2},
        **told | sizes | {"private_attribute": 0},
    )

    def data(first: int) -> FederatedData:
        numbers = first + np.arange(24, dtype=np.uint8).reshape(12, 2)
        labels = np.arange(12, dtype=np.int32) % 2
        dataset = Dataset(
            name="tiny",
            num_classes=2,
            train_inputs=numbers,
            train_labels=labels,
            test_inputs=numbers[:2],
            test_labels=labels[:2],
        )
        if which == "own_data":
            return own_data(resolve(config), dataset)
        return data_of(federate([resolve(config)], dataset), 1)

    made = make_policy(config, min_num_examples=1)
    Site(tmp_path / "log", made, data=OF_0_3_0[which]).begin(5)
    client = Client(made, data(0), tmp_path / "log")
    client.answer(client.initial_arrays, 1)
    assert client.site.read().last_round == 1
    with pytest.raises(ValueError, match="not those with which"):
        Client(made, data(1), tmp_path / "log").site.read()


@pytest.mark.hole
def test_a_log_is_bound_to_the_client_s_own_rows_and_to_no_test_row(
    tmp_path: pathlib.Path,
) -> None:
    """Of clients of one data set any went on with another's log."""
    config, dataset = small(num_clients=3, cohort_size=3, **UPDATE_CLIP), digits()
    program = federation.build([config], dataset)
    made = make_policy(config, min_num_examples=10)
    Client(made, data_of(program.data, 0), tmp_path / "log").begin()
    Client(made, data_of(program.data, 0), tmp_path / "log").site.read()
    with pytest.raises(ValueError, match="the records are not those"):
        Client(made, data_of(program.data, 1), tmp_path / "log").site.read()
    fewer = {
        name: getattr(dataset, name)[:5] for name in ("test_inputs", "test_labels")
    }
    Client(made, own_data(config, dataset), tmp_path / "own").begin()
    others = own_data(config, dataclasses.replace(dataset, **fewer))
    Client(made, others, tmp_path / "own").site.read()


def exiting(*request: Any) -> Any:
    raise SystemExit("record 17 is wrong")


@pytest.mark.hole
def test_a_private_query_that_fails_does_not_change_the_public_part(
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was sent back as it had come, un-noised: so a server saw that it failed."""
    sizes = {"num_clients": 3, "cohort_size": 3, "class_share": 0.1, "num_rounds": 6}
    config = small(**sizes | CASES["attribute"])
    program = federation.build([config], digits())
    made = make_policy(config, min_num_examples=least_examples(config, program))
    client = Client(made, data_of(program.data, 0), tmp_path / "log")
    client.begin()
    received = client.initial_arrays
    size = len(jax.tree.leaves(client.trained_model(received, 0).params))
    after, zeros = received[:size], [np.zeros_like(leaf) for leaf in received[size:]]
    after = [leaf + 1 for leaf in after]
    monkeypatch.setattr(client, "_public", lambda *request: after)
    queries: dict[str, Callable[..., Trained]] = {
        "well": lambda *request: Trained(zeros),
        "exits": exiting,
        "another number": lambda *request: Trained(zeros[:1]),
        "NaN": lambda *request: Trained([leaf + np.float32("nan") for leaf in zeros]),
    }
    for round_num, (name, query) in enumerate(queries.items(), 1):
        monkeypatch.setattr(client, "train", query)
        caplog.clear()
        upload, record = client.answer(received, round_num)
        np.testing.assert_equal(upload[:size], after)
        assert len(upload) == len(received)
        assert record["num_examples"] == client.num_examples
        assert ("the training failed" in caplog.text) == (name != "well")
    for public in (exiting, lambda *request: []):
        monkeypatch.setattr(client, "_public", public)
        round_num += 1
        caplog.clear()
        upload, _ = client.answer(received, round_num)
        np.testing.assert_equal(upload[:size], received[:size])
        assert "public training failed" in caplog.text
