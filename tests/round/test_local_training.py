"""Local training against a plain Python loop, and what a coalition may touch."""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from fedsvp_jax import models
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core import prng, tree
from fedsvp_jax.core.float32 import reserve
from fedsvp_jax.core.structs import Examples, Model, Params, Rows, Weights
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import build
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.round import local_training
from fedsvp_jax.round.local_training import Draws, TrainingRates, TrainingRecipe

RATES = TrainingRates(
    learning_rate=np.float32(0.1),
    l2_norm_clip=np.float32(0.5),
    step_noise_std=np.float32(0.0),
    proximal_mu=np.float32(0.0),
)


# One program for all calls with the same model, settings and shapes.
local_update = jax.jit(
    local_training.local_update,
    static_argnums=(0, 1),
    static_argnames=("lane_axes",),
)


@functools.cache
def make_model(name: str) -> Model:
    return models.make_model(name, num_classes=3)


def make_examples() -> Examples:
    rng = np.random.default_rng(3)
    return Examples(
        inputs=jnp.asarray(rng.normal(size=(20, 6)).astype(np.float32)),
        labels=jnp.asarray(rng.integers(0, 3, 20).astype(np.int32)),
        attributes=jnp.asarray(np.arange(20, dtype=np.int32) % 2),
    )


def train(
    member: np.ndarray | jax.Array,
    *,
    rates: TrainingRates = RATES,
    examples: Examples | None = None,
    model: Model | None = None,
    lane_axes: tuple[str, ...] = (),
    drift: float | None = None,
    **recipe: Any,
) -> tuple[Params, Params]:
    """The parameters before and after."""
    model, examples = model or make_model("mlp"), examples or make_examples()
    params, stats = jax.jit(model.init)(jax.random.key(0), examples.inputs[:1])
    told = {"batch_size": 4, "local_epochs": 2, "gradient": "clipped_mean"} | recipe
    rows = jnp.arange(member.shape[0], dtype=jnp.int32)
    trained, _ = local_update(
        *(model, TrainingRecipe(**told), rates, Weights(params, stats)),
        Rows(examples, rows, member),
        Draws(jax.random.key(1), jax.random.key(4)),
        lane_axes=lane_axes,
        drift=drift and jax.tree.map(lambda w: jnp.full_like(w, drift), params),
    )
    return params, trained


PLAIN = {
    "clipped mean": {},
    "mean": {"gradient": "mean"},
    "proximal, with momentum": {
        "proximal": True,
        "momentum": 0.5,
        "rates": RATES._replace(proximal_mu=np.float32(0.7)),
    },
    "with a drift": {"drift": 0.05},
    "per example": {
        "gradient": "per_example",
        "rates": RATES._replace(step_noise_std=np.float32(0.2)),
    },
}


@pytest.mark.parametrize(
    ("kind", "count"),
    [  # three batches of 4; less than one batch
        *((kind, 14) for kind in PLAIN),
        ("clipped mean", 3),
        ("per example", 3),
    ],
)
def test_update_equals_a_plain_loop_over_the_same_shuffles(
    kind: str, count: int
) -> None:
    member = np.arange(20) < count
    start, trained = train(member, **PLAIN[kind])
    model, examples = make_model("mlp"), make_examples()
    told = {"drift": 0.0, "momentum": 0.0, "rates": RATES} | PLAIN[kind]
    first, unravel = ravel_pytree(start)

    @jax.jit
    @jax.grad
    def gradient_of(flat, row):
        x = examples.inputs[row][None]
        logits, _ = model.apply(unravel(flat), {}, x, train=False, key=None)
        return -jax.nn.log_softmax(logits)[0, examples.labels[row]]

    def clipped(gradient):
        return gradient * jnp.minimum(1.0, 0.5 / jnp.linalg.norm(gradient))

    flat, velocity, number = first, jnp.zeros_like(first), 0
    for epoch in range(2):
        key = jax.random.fold_in(jax.random.key(1), epoch)
        order = local_training.shuffled(key, jnp.asarray(member))
        for step in range(max(count // 4, 1)):  # of 14 examples, two are dropped
            rows = order[4 * step : min(4 * step + 4, count)]
            each = [gradient_of(flat, row) for row in rows]
            gradient = sum(each) / len(each)
            if kind == "per example":
                mean = sum(map(clipped, each)) / 4  # whatever the batch holds
                step_key = jax.random.fold_in(jax.random.key(4), number)
                key = prng.stream_key(step_key, prng.Stream.DP_SGD)
                gradient, _ = noise.add_gaussian_noise(mean, 0.2, key=key)
            elif kind != "mean":
                assert jnp.linalg.norm(gradient) > 0.5  # so that the clip is seen
                gradient = clipped(gradient)
            pull = float(told["rates"].proximal_mu) * (flat - first)
            velocity = told["momentum"] * velocity + gradient + pull + told["drift"]
            flat, number = flat - 0.1 * velocity, number + 1
    chex.assert_trees_all_close(trained, unravel(flat), rtol=2e-5, atol=2e-6)


def test_shuffle_puts_members_first_and_ignores_the_padding() -> None:
    member = np.array([True, False, True, True, False, True])
    key = jax.random.key(5)
    order = local_training.shuffled(key, jnp.asarray(member))
    assert set(order[:4].tolist()) == {0, 2, 3, 5}
    longer = local_training.shuffled(key, jnp.asarray([*member, False, False]))
    np.testing.assert_array_equal(order[:4], longer[:4])


@pytest.mark.parametrize("gradient", ["clipped_mean", "per_example"])
@pytest.mark.parametrize("stride", [3, 9])  # seven members; fewer than a batch
def test_a_lane_never_reads_an_example_outside_its_coalition(
    gradient: str, stride: int
) -> None:
    member = np.arange(20) % stride == 0
    clean = make_examples()
    poison = jnp.where(jnp.asarray(member)[:, None], clean.inputs, jnp.nan)
    _, trained = train(member, gradient=gradient)
    _, poisoned = train(
        member, gradient=gradient, examples=clean.replace(inputs=poison)
    )
    chex.assert_trees_all_equal(trained, poisoned)


def test_a_lane_without_examples_keeps_the_broadcast_model() -> None:
    """One smaller than a batch takes a step."""
    chex.assert_trees_all_equal(*train(np.zeros(20, bool)))
    steps = local_training.steps_per_epoch(jnp.asarray([0, 1, 3, 4, 9]), 4)
    np.testing.assert_array_equal(steps, [0, 1, 1, 1, 2])


def test_lanes_of_other_length_side_by_side_train_as_alone() -> None:
    members = jnp.asarray([np.arange(20) < 16, np.arange(20) < 5])
    side_by_side = jax.vmap(
        lambda member: train(member, lane_axes=("lane",))[1], axis_name="lane"
    )(members)
    for index, member in enumerate(members):
        beside = tree.cell_of(side_by_side, index)
        chex.assert_trees_all_close(beside, train(member)[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "places", "clip"),
    [  # a clip below, among and above the norms
        (14, None, 1.0),
        (3, None, 0.01),
        (14, 9, 1.0),
        (14, 9, 100.0),
    ],
)
def test_a_linear_model_clips_every_example_without_their_gradients(
    count: int, places: int | None, clip: float
) -> None:
    """As through one gradient for each example, in full, padded and Poisson batches."""
    linear = make_model("scatter_linear")
    assert linear.gradient_scale is not None
    rates = RATES._replace(
        l2_norm_clip=np.float32(clip), step_noise_std=np.float32(0.01)
    )
    member = np.arange(20) < count
    given = {"gradient": "per_example", "rates": rates, "places": places}
    _, found = train(member, model=linear, **given)
    plain = linear._replace(gradient_scale=None)
    _, expected = train(member, model=plain, **given)
    chex.assert_trees_all_close(found, expected, rtol=1e-4, atol=1e-6)


def _mean_of_clipped(x: np.ndarray, y: np.ndarray, w: Any, clip: float) -> np.ndarray:
    """Mean of (r clipped to 1) ⊗ ((x, 1) clipped to C), in float64."""
    gradients = []
    for row, label in zip(x, y, strict=True):
        logits = w["kernel"] @ row + w["bias"]
        residual = np.exp(logits - logits.max())
        residual /= residual.sum()
        residual[label] -= 1
        features = np.append(row, 1.0)
        residual *= min(1, 1 / np.linalg.norm(residual))
        features *= min(1, clip / np.linalg.norm(features))
        gradients.append(np.outer(residual, features))
    assert max(map(np.linalg.norm, gradients)) <= clip * (1 + 1e-12)
    return np.mean(gradients, axis=0)


@pytest.mark.parametrize("clip", [0.1, 2.0, 100.0])  # all, some, none of the features
def test_residuals_and_features_are_clipped_one_by_one(clip: float) -> None:
    """Against a loop in NumPy, at weights that are wrong about some with certainty."""
    linear = models.make_model("logistic", num_classes=3)
    rng = np.random.default_rng(5)
    kernel = 2 * rng.normal(size=(3, 6)).astype(np.float32)
    w = {"kernel": kernel, "bias": np.float32([0.5, -1.0, 0.0])}
    wrong = linear._replace(init=lambda *_: (w, {}))
    examples = make_examples()
    x, y = np.float64(examples.inputs), np.asarray(examples.labels)
    start, trained = train(
        np.ones(20, bool),
        model=wrong,
        rates=RATES._replace(
            l2_norm_clip=np.float32(clip), learning_rate=np.float32(1.0)
        ),
        gradient="per_example",
        separate_clips=True,
        batch_size=20,
        local_epochs=1,
    )
    wanted = _mean_of_clipped(x, y, jax.tree.map(np.float64, w), clip)
    moved = jax.tree.map(lambda new, old: np.float64(old) - new, trained, start)
    np.testing.assert_allclose(moved["kernel"], wanted[:, :6], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(moved["bias"], wanted[:, 6], rtol=1e-3, atol=1e-6)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("shortcut", "separate", "height"),
    [(True, False, 33), (True, True, 33), (False, False, 2)],
)
def test_no_clipped_gradient_is_longer_than_its_bound(
    shortcut: bool, separate: bool, height: int
) -> None:
    """C/(1 + ρ), computed without rounding; all that is held back is 2^-16 of C."""
    linear = models.make_model("logistic", num_classes=3)  # starts at 0
    if separate:  # and here at a residual longer than 1
        start = {"kernel": jnp.zeros((3, 6)), "bias": jnp.asarray([-16.0, 0, 0])}
        linear = linear._replace(init=lambda *_: (start, {}))
    linear = linear if shortcut else linear._replace(gradient_scale=None)
    rng = np.random.default_rng(0)
    scales = 10.0 ** rng.uniform(-1, 4, (1000, 1))
    inputs = (scales * rng.normal(size=(1000, 6))).astype(np.float32)
    given = {"gradient": "per_example", "batch_size": 1, "local_epochs": 1}
    given["separate_clips"] = separate
    one = RATES._replace(learning_rate=np.float32(1.0))

    @jax.jit
    @jax.vmap
    def stepped(x: jax.Array) -> Params:
        examples = Examples(x[None], *[jnp.zeros(1, jnp.int32)] * 2)
        told = {"examples": examples, "model": linear, "rates": one}
        before, after = train(np.ones(1, bool), **told, **given)
        return jax.tree.map(jnp.subtract, after, before)

    leaves = [np.float64(leaf) for leaf in jax.tree.leaves(stepped(inputs))]
    squares = [np.sum(leaf.reshape(1000, -1) ** 2, axis=1) for leaf in leaves]
    lengths = np.sqrt(sum(squares)) / 0.5
    assert lengths.min() > 1 - 2.0**-16
    assert lengths.max() <= 1 / (1 + reserve(1, height))


@pytest.mark.hole
def test_a_model_of_ones_own_is_clipped_by_its_gradients() -> None:
    """A record moved a step by 29 C, of a linear model that scales its inputs."""
    made, examples = make_model("logistic"), make_examples()

    def scaled(params: Params, stats: Params, x: jax.Array, **how: Any) -> Any:
        return made.apply(params, stats, 30 * x, **how)

    inputs, labels = (np.asarray(x) for x in (examples.inputs, examples.labels))
    data = Dataset("mine", inputs, labels, inputs, labels, num_classes=3)
    sizes = {"num_clients": 2, "cohort_size": 2, "num_hbc_clients": 0, "batch_size": 4}
    clip = {"mechanism": "gaussian", "clipping": "per_example", "partition": "iid"}
    config = ExperimentConfig(dataset="npz", **sizes, **clip)
    program = build([resolve(config, data)], data, model=made._replace(apply=scaled))
    given = {"gradient": "per_example", "batch_size": 1, "local_epochs": 1}
    rates = RATES._replace(learning_rate=np.float32(1.0))
    one = np.arange(20) < 1
    start, moved = train(one, rates=rates, model=program.model, **given)
    steps = jax.tree.map(jnp.subtract, moved, start)
    length = np.linalg.norm(np.float64(ravel_pytree(steps)[0]))
    assert length == pytest.approx(0.5, rel=1e-3) and length <= 0.5


@pytest.mark.parametrize("gradient_scale", ["kept", "left out"])
def test_an_example_whose_gradient_overflows_counts_as_zero(
    gradient_scale: str,
) -> None:
    """Its record is then hidden as any other is; NaN would tell of it."""
    made = make_model("scatter_linear")

    def ones(*args: Any) -> Any:
        return jax.tree.map(jnp.ones_like, made.init(*args))

    linear = made._replace(init=ones)
    if gradient_scale == "left out":
        linear = linear._replace(gradient_scale=None)
    examples = make_examples()
    spoilt = examples.replace(inputs=examples.inputs.at[0].set(3e38))  # logits: inf
    given = {"gradient": "per_example", "model": linear, "batch_size": 1}
    start, trained = train(np.arange(20) < 1, examples=spoilt, **given)
    chex.assert_trees_all_equal(start, trained)
    _, moved = train(np.arange(20) < 1, examples=examples, **given)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal(start, moved)


@pytest.mark.parametrize("places", [9, 4])  # of 4: half of the batches do not fit
def test_poisson_steps_divide_by_b_whatever_the_batch_holds(places: int) -> None:
    """A gradient that is the same for all records tells how many were in each batch."""
    examples = make_examples()
    same = dataclasses.replace(
        examples,
        inputs=jnp.broadcast_to(examples.inputs[:1], examples.inputs.shape),
        labels=jnp.broadcast_to(examples.labels[:1], examples.labels.shape),
    )
    member = np.arange(20) < 14
    linear = make_model("scatter_linear")
    rates = RATES._replace(l2_norm_clip=np.float32(1e-3))
    given = {"gradient": "per_example", "rates": rates, "places": places}
    start, trained = train(member, model=linear, examples=same, **given)
    sizes = []
    for number in range(6):  # two epochs of three batches of 4
        step_key = jax.random.fold_in(jax.random.key(4), number)
        key = prng.stream_key(step_key, prng.Stream.BATCH)
        drawn = jax.random.randint(key, (20,), 0, 14) < 4
        size = int(np.sum(np.asarray(drawn) & member))
        sizes.append(size if size <= places else 0)
    assert (min(sizes) == 0) == (places == 4) and max(sizes) > 3
    moved = optax.tree.norm(jax.tree.map(jnp.subtract, trained, start))
    length = float(rates.learning_rate) * 1e-3 / 4 * sum(sizes)
    np.testing.assert_allclose(moved, length, rtol=1e-3)


@pytest.mark.parametrize(
    "changes", [{"clipping": "update_clip"}, {"compute_dtype": "bfloat16"}]
)
def test_separate_clips_that_nothing_reads_are_refused(changes: dict[str, str]) -> None:
    x, y = (np.asarray(z) for z in (make_examples().inputs, make_examples().labels))
    data = Dataset("mine", x, y, x, y, num_classes=3)
    settings = {"mechanism": "gaussian", "clipping": "per_example", "model": "logistic"}
    sizes = {"num_clients": 2, "cohort_size": 2, "num_hbc_clients": 0, "batch_size": 4}
    config = ExperimentConfig(
        dataset="npz",
        partition="iid",
        separate_clips=True,
        **sizes,
        **settings | changes,
    )
    with pytest.raises(ValueError, match="separate_clips needs clipping=per_example"):
        build([resolve(config, data)], data)
