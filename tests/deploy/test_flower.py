"""The Flower adapter, its messages made by hand: in the environment of test-deploy."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from deployed import UPDATE_CLIP, model, policy, trained

pytest.importorskip("flwr")

import flwr.app as fl
from flwr.supercore.task_identity import TaskIdentity
from sklearn.linear_model import SGDClassifier

from fedsvp_jax.deploy import Seeded, Site
from fedsvp_jax.deploy.flower import PrivacyMod

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # as flwr sets
CONTEXT: Any = fl.Context(0, 0, {}, fl.RecordDict(), {})


def request(
    arrays: list[np.ndarray], round_num: int, kind: str = "train", first: int = 1
) -> fl.Message:
    record = fl.ArrayRecord({f"{k}": fl.Array(leaf) for k, leaf in enumerate(arrays)})
    config = fl.ConfigRecord({"server-round": round_num, "first-round": first})
    content = fl.RecordDict({"arrays": record, "config": config})
    return fl.Message(content, dst_node_id=1, message_type=kind)


def inner(
    change: Callable[[list[np.ndarray]], list[np.ndarray]] = trained, **reported: Any
) -> Any:
    def train(message: fl.Message, context: fl.Context) -> fl.Message:
        del context
        arrays = message.content["arrays"]
        new = change(arrays.to_numpy_ndarrays())
        named = zip(arrays.keys(), map(fl.Array, new), strict=True)
        record = fl.ArrayRecord(dict(named))
        told = fl.MetricRecord({"num-examples": 31, "loss": 0.123} | reported)
        content = fl.RecordDict({"arrays": record, "metrics": told})
        return fl.Message(content, reply_to=message)

    return train


def mod(folder: pathlib.Path, **changes: Any) -> PrivacyMod:
    site = Site(folder / "state.json", policy(**UPDATE_CLIP | changes))
    site.begin(30)
    site.randomness = Seeded(7, 2)
    return PrivacyMod(site)


def test_the_mod_sends_noised_arrays_and_the_number_of_examples_alone(
    tmp_path: pathlib.Path,
) -> None:
    reply = mod(tmp_path)(request(model(), 1), CONTEXT, inner())
    assert not reply.has_error()
    assert dict(reply.content["metrics"]) == {"num-examples": 30}
    assert list(reply.content) == ["arrays", "metrics"]
    sent = reply.content["arrays"].to_numpy_ndarrays()
    for leaf, start, end in zip(sent, model(), trained(model()), strict=True):
        assert leaf.shape == start.shape and leaf.dtype == np.float32
        assert not np.allclose(leaf, end, atol=0.01)
    state = Site(tmp_path / "state.json", policy(**UPDATE_CLIP)).read()
    assert int(state.sums["uploads"][0]) == 1


@pytest.mark.hole
def test_a_float64_model_of_scikit_learn_goes_out_and_comes_back(
    tmp_path: pathlib.Path,
) -> None:
    """Every round was refused, since its weights are float64."""
    classifier = SGDClassifier(random_state=0)

    def fit(arrays: list[np.ndarray]) -> list[np.ndarray]:
        assert {leaf.dtype.name for leaf in arrays} == {"float64"}
        classifier.partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 1], classes=[0, 1])
        return [classifier.coef_, classifier.intercept_]

    around, weights = mod(tmp_path), [np.zeros((1, 2)), np.zeros(1)]
    for round_num in (1, 2):
        reply = around(request(weights, round_num), CONTEXT, inner(fit))
        assert not reply.has_error(), reply.error
        weights = reply.content["arrays"].to_numpy_ndarrays()
    assert int(around.site.read().sums["uploads"][0]) == 2


def test_the_server_gets_one_sentence_and_the_state_is_unharmed(
    tmp_path: pathlib.Path,
) -> None:
    around = mod(tmp_path, max_uploads=1)
    around(request(model(), 1), CONTEXT, inner())
    before = (tmp_path / "state.json").read_bytes()
    for message, train, words in (
        (request(model(), 1), inner(), "round 1 is over"),
        (request(model(), 2), inner(), "exceed this client's promise"),
        (request(model(), 2, kind="evaluate"), inner(), "requests to train alone"),
        (request([leaf * np.nan for leaf in model()], 2), inner(), ""),
        (request(model(), 5, first=2), inner(), "round 6 is not one of the 5"),
    ):
        reply = around(message, CONTEXT, train)
        assert reply.has_error() and words in reply.error.reason
    assert (tmp_path / "state.json").read_bytes() == before


@pytest.mark.hole
def test_an_inner_app_that_fails_is_noise_to_the_server(tmp_path: pathlib.Path) -> None:
    def wrong(arrays: list[np.ndarray]) -> list[np.ndarray]:
        raise RuntimeError("record 17 is wrong")

    def exits(arrays: list[np.ndarray]) -> list[np.ndarray]:
        raise SystemExit("record 17 is wrong")

    def error(message: fl.Message, context: fl.Context) -> fl.Message:
        del context
        return fl.Message(fl.Error(code=0, reason="record 17"), reply_to=message)

    still = mod(tmp_path / "still")(
        request(model(), 1), CONTEXT, inner(lambda arrays: arrays)
    )
    failures = inner(wrong), inner(exits), error, inner(lambda a: a[:1])
    for place, failed in enumerate(failures):
        around = mod(tmp_path / str(place))
        reply = around(request(model(), 1), CONTEXT, failed)
        assert dict(reply.content["metrics"]) == {"num-examples": 30}
        for got, leaf in zip(
            reply.content["arrays"].to_numpy_ndarrays(),
            still.content["arrays"].to_numpy_ndarrays(),
            strict=True,
        ):
            np.testing.assert_array_equal(got, leaf)
        assert around.site.read().last_round == 1
        again = around(request(model(), 1), CONTEXT, inner())
        assert again.error.reason.startswith("round 1 is over")
