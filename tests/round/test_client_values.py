"""Values of one round's clients: by hand for three of them, and the axioms."""

import itertools
import pathlib
from types import SimpleNamespace
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

from fedsvp_jax import report, run, shapley
from fedsvp_jax.core.structs import Examples, Model, Weights
from fedsvp_jax.round.client_values import client_values, plan_of
from fedsvp_jax.round.state import Data, Uploads
from fedsvp_jax.shapley.coalitions import coalition_rows
from fedsvp_jax.shapley.estimators import Values
from fedsvp_jax.shapley.values import ClientValueSettings

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


def bent(outputs: Any) -> Any:
    """Of numpy and of JAX alike."""
    return outputs / (1 + outputs**2) ** 0.5 * 3


def model(bend: bool) -> Model:
    def apply(params: Any, stats: Any, x: Any, **_: Any) -> Any:
        outputs = x @ params["w"] + stats["b"][None]
        return bent(outputs) if bend else outputs, stats

    return Model(init=lambda key, example: ({}, {}), apply=apply)


def found(
    uploads: Any,
    sizes: Any,
    kind: str = "exact",
    utility: str = "loss",
    stats: Any = None,
    bend: bool = False,
    **more: Any,
) -> Values:
    """As the package finds them."""
    number = len(sizes)
    together = more.pop("together", 1)
    told = ClientValueSettings(client_values=kind, client_value_utility=utility, **more)
    plan = plan_of(told, number, batch_size=16, num_parallel=together)
    assert plan is not None
    stats = np.zeros((number, CLASSES), np.float32) if stats is None else stats
    start: Any = SimpleNamespace(
        weights=Weights({"w": jnp.asarray(START)}, {"b": jnp.zeros(CLASSES)})
    )
    examples = Examples(
        jnp.asarray(INPUTS), jnp.asarray(LABELS), jnp.zeros(COUNT, jnp.int32)
    )
    asked = Uploads(
        Weights({"w": jnp.asarray(uploads)}, {"b": jnp.asarray(stats)}),
        jnp.asarray(sizes, jnp.int32),
        lambda update: jax.tree.map(lambda leaf: RATE * leaf, update),
        start,
        Data(examples, examples, examples),
        jax.random.key(0),
    )
    return client_values(model(bend), plan, asked)


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
        np.testing.assert_allclose(mine.values, expected, atol=1e-5)
    everybody, nobody = worth((0, 1, 2), utility), worth((), utility)
    np.testing.assert_allclose(expected.sum(), everybody - nobody)


def test_order_and_empty_places_change_nothing_and_linear_blends_are_exact() -> None:
    values = found(UPLOADS, SIZES).values
    turned = found(UPLOADS[[2, 0, 1]], [SIZES[2], SIZES[0], SIZES[1]])
    np.testing.assert_allclose(turned.values, values[jnp.asarray([2, 0, 1])], atol=1e-6)
    broken = np.full_like(UPLOADS[:1], np.nan)  # what a lane without a client holds
    some = {"client_value_models": 4}
    for kind, more in (("exact", {}), ("additive", {}), ("additive", some)):
        padded = found(np.concatenate([UPLOADS, broken]), [*SIZES, 0], kind, **more)
        padded = padded.values
        assert padded[3] == 0
        np.testing.assert_allclose(padded[:3], values, atol=1e-5)


def test_of_twelve_clients_the_process_is_near_and_says_how_near() -> None:
    """Outputs bend in the parameters, so that no blend of them is exact."""
    number, draw = 12, np.random.default_rng(0)
    sizes = draw.integers(1, 20, number).tolist()
    rows = coalition_rows(range(2**number), number) * np.asarray(sizes)
    shares = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    nearer, inside = [], []
    for _ in range(3):
        uploads = draw.normal(size=(number, FEATURES, CLASSES)).astype(np.float32)
        moved = np.einsum("sk,kfc->sfc", shares, uploads.astype(np.float64))
        logits = bent(INPUTS @ (START + RATE * moved))
        wanted = np.take_along_axis(logits, LABELS[None, :, None].astype(int), 2)
        worth = np.mean(wanted[..., 0] - np.log(np.exp(logits).sum(2)), axis=1)
        exact = worth @ shapley.values.weights(number)
        told = {
            kind: found(uploads, sizes, kind, bend=True, client_value_models=models)
            for kind, models in (("additive", 0), ("gp", 24))
        }
        blend, mine = (abs(np.asarray(one.values) - exact) for one in told.values())
        nearer.append(mine.mean() / blend.mean())
        inside.append(np.mean(mine <= np.asarray(told["gp"].margins)))
        total = np.sum(told["gp"].values)
        np.testing.assert_allclose(total, worth[-1] - worth[0], atol=2e-4)
    assert max(nearer) < 0.9, nearer
    assert np.mean(inside) > 0.8, inside


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_a_run_tells_values_that_share_out_what_a_round_gains(
    weighting: str, tmp_path: pathlib.Path
) -> None:
    """And they change no bit of the run; the page has their table.

    Clients have different sizes, so the gain is of the weights of the average.
    """
    silent = {"mechanism": "gaussian", "epsilon": 50.0, "num_rounds": 2}
    silent |= {"weighting": weighting, "partition": "dirichlet", "num_hbc_clients": 0}
    by = {"client_values": "exact", "client_value_utility": "loss"}
    rows, pages = [], []
    for name, changes in (("plain", {}), ("told", by)):
        config = small(**silent | {"validation_examples": 60} | changes)
        run.train(config, tmp_path / name, dataset=digits())
        for kind in ("metrics", "clients"):
            rows.append(read_rows(tmp_path / name / f"{kind}.jsonl"))
        pages.append(report.write_run_report(tmp_path / name).read_text())
    plain, clients, valued, of_clients = rows
    assert plain == valued
    first, second = (row["validation_loss"] for row in valued)
    values = [(row["round"], row.pop("client_value")) for row in of_clients]
    gained = sum(value for number, value in values if number == 2)
    assert gained == pytest.approx(first - second, abs=1e-5)
    assert clients == of_clients
    assert ["sum of values</th>" in page for page in pages] == [False, True]
