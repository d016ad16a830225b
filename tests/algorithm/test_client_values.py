"""Values of one round's clients: by hand for three of them, and the axioms."""

import itertools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import (
    digits,
    read_rows,
    shared_rounds,  # noqa: F401, a fixture
    small,
)

from fedsvp_jax import report, run
from fedsvp_jax.algorithm.client_values import client_values, plan_of
from fedsvp_jax.shapley import ClientValueSettings
from fedsvp_jax.structs import Examples, Model, Weights

pytestmark = pytest.mark.usefixtures("shared_rounds")

CLASSES, FEATURES, COUNT = 3, 4, 40
RNG = np.random.default_rng(0)
START = RNG.normal(size=(FEATURES, CLASSES)).astype(np.float32)
INPUTS = RNG.normal(size=(COUNT, FEATURES)).astype(np.float32)
LABELS = RNG.integers(0, CLASSES, COUNT).astype(np.int32)
SIZES = [5, 20, 10]
UPLOADS = RNG.normal(size=(3, FEATURES, CLASSES)).astype(np.float32)
STATS = RNG.normal(size=(3, CLASSES)).astype(np.float32)
RATE = 0.5  # of the server


def applied(params: Any, stats: Any, x: Any, **_: Any) -> Any:
    return x @ params["w"] + stats["b"][None], stats


MODEL = Model(init=lambda key, example: ({}, {}), apply=applied)


def found(
    uploads: Any,
    sizes: Any,
    kind: str = "exact",
    utility: str = "loss",
    stats: Any = None,
    **more: Any,
) -> np.ndarray:
    """(K,) as the package finds them."""
    number = len(sizes)
    together = more.pop("together", 1)
    told = ClientValueSettings(client_values=kind, client_value_utility=utility, **more)
    plan = plan_of(told, number, batch_size=16, together=together)
    assert plan is not None
    stats = np.zeros((number, CLASSES), np.float32) if stats is None else stats
    values = client_values(
        MODEL,
        plan,
        Weights({"w": jnp.asarray(START)}, {"b": jnp.zeros(CLASSES)}),
        Weights({"w": jnp.asarray(uploads)}, {"b": jnp.asarray(stats)}),
        jnp.asarray(sizes, jnp.int32),
        lambda update: jax.tree.map(lambda leaf: RATE * leaf, update),
        Examples(jnp.asarray(INPUTS), jnp.asarray(LABELS), jnp.zeros(COUNT, jnp.int32)),
        jax.random.key(0),
    )
    return np.asarray(values.values)


def worth(members: tuple[int, ...], utility: str) -> float:
    """By hand: FedAvg among the members, then accuracy, or ln 3 - cross-entropy."""
    weights, shift = START.astype(np.float64), np.zeros(CLASSES)
    if members:
        total = sum(SIZES[i] for i in members)
        weights = weights + RATE * sum(
            SIZES[i] / total * UPLOADS[i].astype(np.float64) for i in members
        )
        shift = sum(SIZES[i] / total * STATS[i].astype(np.float64) for i in members)
    logits = INPUTS @ weights + shift
    if utility == "accuracy":
        return float(np.mean(logits.argmax(1) == LABELS))
    entropy = np.log(np.exp(logits).sum(1)) - logits[np.arange(COUNT), LABELS]
    return float(np.log(CLASSES) - entropy.mean())


@pytest.mark.parametrize("utility", ["accuracy", "loss"])
def test_values_of_three_clients_are_those_found_by_hand(utility: str) -> None:
    expected = np.zeros(3)
    for order in itertools.permutations(range(3)):
        for place, client in enumerate(order):
            before, after = order[:place], order[: place + 1]
            expected[client] += worth(after, utility) - worth(before, utility)
    expected /= 6
    for together in (1, 2):
        mine = found(UPLOADS, SIZES, utility=utility, stats=STATS, together=together)
        np.testing.assert_allclose(mine, expected, atol=1e-5)
    everybody, nobody = worth((0, 1, 2), utility), worth((), utility)
    np.testing.assert_allclose(expected.sum(), everybody - nobody)


def test_the_order_of_clients_and_empty_places_change_nothing() -> None:
    values = found(UPLOADS, SIZES)
    turned = found(UPLOADS[[2, 0, 1]], [SIZES[2], SIZES[0], SIZES[1]])
    np.testing.assert_allclose(turned, values[[2, 0, 1]], atol=1e-6)
    broken = np.full_like(UPLOADS[:1], np.nan)  # what a lane without a client holds
    for kind in ("exact", "additive"):
        padded = found(np.concatenate([UPLOADS, broken]), [*SIZES, 0], kind)
        assert padded[3] == 0
        np.testing.assert_allclose(padded[:3], values, atol=1e-5)


def test_the_blend_is_exact_where_outputs_are_linear_in_the_parameters() -> None:
    exact = found(UPLOADS, SIZES)
    for models in (0, 4):
        blended = found(UPLOADS, SIZES, "additive", client_value_models=models)
        np.testing.assert_allclose(blended, exact, atol=1e-5)


def test_a_run_tells_values_that_share_out_what_a_round_gains(
    tmp_path: pathlib.Path,
) -> None:
    """And they change no bit of the run; the page has their table."""
    silent = {"mechanism": "gaussian", "noise_std": 0.01, "num_rounds": 2}
    told = silent | {"validation_examples": 60, "client_values": "exact"}
    for name, changes in (("plain", silent), ("told", told)):
        config = small(**{"validation_examples": 60} | changes)
        run.train(config, tmp_path / name, dataset=digits())
    plain, valued = (
        {name: read_rows(tmp_path / run_name / f"{name}.jsonl") for name in FILES}
        for run_name in ("plain", "told")
    )
    assert plain["metrics"] == valued["metrics"]
    first, second = (row["validation_accuracy"] for row in valued["metrics"])
    gained = sum(r["client_value"] for r in valued["clients"] if r["round"] == 2)
    assert gained == pytest.approx(second - first, abs=1e-5)
    for row in valued["clients"]:
        row.pop("client_value")
    assert plain["clients"] == valued["clients"]
    page = report.write_run_report(tmp_path / "told").read_text()
    assert "Who contributes" in page and "Shapley value of each upload" in page
    assert (
        "Who contributes" not in report.write_run_report(tmp_path / "plain").read_text()
    )


FILES = ("metrics", "clients")
