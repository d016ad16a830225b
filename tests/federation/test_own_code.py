"""Runs of one seed whose code differs share no draw of noise."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from commands import start
from jax import Array
from small_runs import digits, small

from fedsvp_jax import federation, mechanisms, models, prng, run
from fedsvp_jax.mechanisms import base, calibration, registry, sensitivity
from fedsvp_jax.models.networks import MLP
from fedsvp_jax.structs import Model
from fedsvp_jax.tree import cell_of

MLP_OF_DIGITS = models.from_linen(MLP(num_classes=10, hidden=(4,)))
TABLE = np.linspace(-1, 1, 640).astype(np.float32).reshape(64, 10)


def noise_key(*, name: str = "gaussian", config: Any = None, **own: Any) -> bytes:
    """The root of what hides something in a run with code of one's own."""
    given: dict[str, Any] = {"sensitivity": "update_clip", "num_rounds": 2}
    made = federation.build([config or small(mechanism=name, **given)], digits(), **own)
    return np.asarray(jax.random.key_data(cell_of(made.cells.root, 0).own)).tobytes()


def smoothed(smoothing: float) -> Callable[[Array, Array], Array]:
    def loss(logits: Array, label: Array) -> Array:
        wanted = optax.smooth_labels(jax.nn.one_hot(label, 10), smoothing)
        return optax.softmax_cross_entropy(logits, wanted)

    return loss


def straight_through(factor: float) -> Callable[[Array, Array], Array]:
    """A loss whose gradient alone follows the factor."""

    @jax.custom_vjp
    def same(x: Array) -> Array:
        return x

    same.defvjp(lambda x: (x, None), lambda _, g: (factor * g,))

    def loss(logits: Array, label: Array) -> Array:
        return optax.softmax_cross_entropy_with_integer_labels(same(logits), label)

    return loss


def apply_with(change: Callable[..., Array]) -> Model:
    """The MLP with changed outputs."""

    def apply(params: Any, stats: Any, x: Array, *, train: bool, key: Any) -> Any:
        outputs, stats = MLP_OF_DIGITS.apply(params, stats, x, train=train, key=key)
        return change(outputs, x, train), stats

    return MLP_OF_DIGITS._replace(apply=apply)


def with_table(table: np.ndarray, *, inside: bool) -> Model:
    """The MLP plus a fixed linear map, in a program inside the program or not."""
    product = lambda x: x.reshape(len(x), -1) @ table  # noqa: E731
    product = jax.jit(product) if inside else product
    return apply_with(lambda outputs, x, train: outputs + product(x))


def started(scale: float) -> Model:
    def init(key: Array, example: Array) -> Any:
        params, stats = MLP_OF_DIGITS.init(key, example)
        return jax.tree.map(lambda leaf: scale * leaf, params), stats

    return MLP_OF_DIGITS._replace(init=init)


def in_batches(factor: float) -> Model:
    """Changed in a batch of the size that is trained on, not in batches of one."""
    return apply_with(lambda outputs, x, _: outputs * (factor if len(x) == 5 else 1.0))


def scaled_norm(factor: float) -> Model:
    return MLP_OF_DIGITS._replace(gradient_scale=lambda x: factor * jnp.ones(len(x)))


def dropped(rate: float) -> Model:
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Array, *, train: bool) -> Array:
            x = x.reshape(len(x), -1)
            return nn.Dense(10)(nn.Dropout(rate)(x, deterministic=not train))

    return models.from_linen(Net())


def moved(number: int) -> np.ndarray:
    """One number of the table a bit larger."""
    table = TABLE.copy()
    table.flat[number] = np.nextafter(table.flat[number], np.float32(9))
    return table


NEXT = float(np.nextafter(np.float32(0.3), np.float32(1)))
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a number of the loss": tuple({"loss": smoothed(s)} for s in (0.3, NEXT)),
    "the loss's gradient": tuple({"loss": straight_through(f)} for f in (1.0, 2.0)),
    "an array": tuple(
        {"model": with_table(t, inside=False)} for t in (TABLE, moved(333))
    ),
    "an array of an inner program": tuple(
        {"model": with_table(t, inside=True)} for t in (TABLE, moved(333))
    ),
    "evaluation": tuple(
        {"model": apply_with(lambda o, x, train, f=f: o if train else f * o)}
        for f in (1.5, 2.0)
    ),
    "initial weights": tuple({"model": started(s)} for s in (0.5, 1.0)),
    "a batch's size": tuple({"model": in_batches(f)} for f in (0.5, 2.0)),
    "norms": tuple({"model": scaled_norm(f)} for f in (1.0, 2.0)),
    "dropout": tuple({"model": dropped(r)} for r in (0.1, 0.2)),
    "an operation": tuple(
        {"model": apply_with(lambda o, x, train, f=f: f(o))}
        for f in (jnp.sin, jnp.tanh)
    ),
}


@pytest.mark.hole
@pytest.mark.parametrize("what", PAIRS)
def test_models_and_losses_that_differ_in_anything_share_no_noise(what: str) -> None:
    first, second = (noise_key(**own) for own in PAIRS[what])
    assert first != second
    assert first == noise_key(**PAIRS[what][0])  # traced anew


def phases(late: float, *, promised: float = 1.0, server: float | None = None) -> Any:
    """The factory of a mechanism as in docs/library.md; a number is in its code."""

    def make(config: Any) -> Any:
        def calibrate(ratio: Array, round_num: Array, bound: Array) -> Any:
            z = jnp.where(round_num < 1, 8.0, jnp.float32(late))
            epsilon = calibration.concentrated_epsilon(z, config.delta)
            return base.claimed(z, epsilon, config.delta)

        law = base.Law(calibrate, any_epsilon=True, num_rounds=config.num_rounds)
        made = base.chain(sensitivity.make_sensitivity(config), law)
        made = made._replace(least_multiplier=promised * made.least_multiplier)
        if server is None:
            return made

        def shrunk(params: Any, before: Any, state: Any, **rest: Any) -> Any:
            return jax.tree.map(lambda leaf: server * leaf, params), state

        return made._replace(server=shrunk)

    return make


def key_of_plugin(monkeypatch: pytest.MonkeyPatch, *code: Any, **more: Any) -> bytes:
    with monkeypatch.context() as patch:
        patch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
        mechanisms.register_mechanism(
            "phases", phases(*code, **more), summary="", noise_setting=None
        )
        return noise_key(name="phases")


@pytest.mark.hole
def test_mechanisms_of_one_name_that_differ_in_their_code_share_no_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = functools.partial(key_of_plugin, monkeypatch)
    assert key(4.0) == key(4.0)
    others = [
        key(4.0),
        key(4.0 + 2**-20),
        key(4.0, promised=0.5),
        key(4.0, server=0.5),
        key(4.0, server=0.25),
    ]
    assert len({*others}) == len(others)


def test_code_of_the_package_has_no_digest_and_keeps_its_noise() -> None:
    config = small(sensitivity="update_clip")
    made = federation.build([config], digits())
    assert made.own_code == ((),)
    found = federation.program.run_digest(
        made.configs[0], made.mechanism, made.data.fingerprint
    )
    keys = jax.tree.map(jax.random.key_data, prng.run_keys(config.seed, found))
    np.testing.assert_array_equal(keys.own, jax.random.key_data(made.cells.root.own)[0])


ELSEWHERE = """
import sys, json
sys.path[:0] = ["tests/helpers", "tests/federation"]
import jax
jax.nn.silu(jax.random.normal(jax.random.key(1), (3,)))  # traced before
import test_own_code as ours
print(json.dumps([ours.noise_key(**pair[0]).hex() for pair in ours.PAIRS.values()]))
"""


def test_the_same_code_has_the_same_noise_in_every_process() -> None:
    process = start(ELSEWHERE, how="-c", PYTHONHASHSEED="7")
    out, error = process.communicate(timeout=200)
    assert out, error
    assert json.loads(out) == [noise_key(**pair[0]).hex() for pair in PAIRS.values()]


@pytest.mark.hole
def test_code_that_calls_the_host_is_refused_where_noise_hides_something() -> None:
    def loss(logits: Array, label: Array) -> Array:
        shape = jax.ShapeDtypeStruct((), np.float32)
        factor = jax.pure_callback(
            lambda: np.float32(2), shape, vmap_method="sequential"
        )
        own = optax.softmax_cross_entropy_with_integer_labels(logits, label)
        return jax.lax.stop_gradient(factor) * own

    with pytest.raises(ValueError, match=r"by pure_callback, .* or set paired_noise"):
        noise_key(loss=loss)
    noise_key(loss=loss, config=small(sensitivity="update_clip", paired_noise=True))

    def printing(logits: Array, label: Array) -> Array:
        jax.debug.print("{}", label)
        return smoothed(0.3)(logits, label)

    noise_key(loss=printing)


@pytest.mark.hole
def test_a_run_is_not_resumed_with_another_loss_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Started(Exception):
        pass

    def session(*_: Any) -> None:
        raise Started

    monkeypatch.setattr(run.one_run, "Session", session)
    told = small(sensitivity="update_clip"), tmp_path / "run"

    def train(smoothing: float) -> None:
        options = run.Options(resume=True)
        run.train(*told, dataset=digits(), loss=smoothed(smoothing), options=options)

    for smoothing in (0.3, 0.3):
        with pytest.raises(Started):
            train(smoothing)
    with pytest.raises(ValueError, match=r"cannot resume .* own_code is .* and was "):
        train(0.1)
