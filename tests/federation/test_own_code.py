"""Runs of one seed whose code differs share no draw of noise."""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from commands import start
from jax import Array
from small_runs import SMALL, digits, small

from fedsvp_jax import federation, mechanisms, models, run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core import prng
from fedsvp_jax.core.settings import Settings, setting
from fedsvp_jax.core.structs import MechanismState, Model
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.devices import target
from fedsvp_jax.mechanisms import base, calibration, clipping, registry
from fedsvp_jax.models.networks import MLP

MLP_OF_DIGITS = models.from_linen(MLP(num_classes=10, hidden=(4,)))
TABLE = np.linspace(-1, 1, 640).astype(np.float32).reshape(64, 10)


def noise_key(*, model: Any = None, loss: Any = None, **settings: Any) -> bytes:
    """The root of what hides something in a run with code of one's own."""
    target = settings.pop("target", None)
    given: dict[str, Any] = {"clipping": "update_clip", "num_rounds": 2}
    given |= {"mechanism": "gaussian"} | settings
    config = small(**given)
    made = federation.build([config], digits(), model=model, loss=loss, target=target)
    return np.asarray(jax.random.key_data(cell_of(made.cells.root, 0).secret)).tobytes()


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


def batching_rule(factor: float) -> Callable[[Array, Array], Array]:
    """A loss that follows the factor where examples lie side by side."""

    @jax.custom_batching.custom_vmap
    def same(x: Array) -> Array:
        return x

    @same.def_vmap
    def _(size: int, batched: Any, x: Array) -> Any:
        del size, batched
        return factor * x, True

    def loss(logits: Array, label: Array) -> Array:
        own = optax.softmax_cross_entropy_with_integer_labels(logits, label)
        return own + jax.lax.stop_gradient(same(jnp.sum(logits)))

    return loss


def in_batches(factor: float, size: int) -> Model:
    """Changed in batches of one size alone."""
    return apply_with(lambda o, x, _: o * (factor if len(x) == size else 1.0))


def in_bfloat16(factor: float) -> Model:
    """Changed where products are computed in bfloat16."""

    def apply(params: Any, stats: Any, x: Array, *, train: bool, key: Any) -> Any:
        outputs, stats = MLP_OF_DIGITS.apply(params, stats, x, train=train, key=key)
        return outputs * (factor if x.dtype == jnp.bfloat16 else 1.0), stats

    return MLP_OF_DIGITS._replace(apply=apply)


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
    "a batch of five": tuple({"model": in_batches(f, 5)} for f in (0.5, 2.0)),
    "a batch of one": tuple({"model": in_batches(f, 1)} for f in (0.5, 2.0)),
    "a rule of batching": tuple({"loss": batching_rule(f)} for f in (0.5, 2.0)),
    "a number format": tuple(
        {"model": in_bfloat16(f), "compute_dtype": "bfloat16"} for f in (0.5, 2.0)
    ),
    "dropout": tuple({"model": dropped(r)} for r in (0.1, 0.2)),
    "a key": tuple(
        {"model": apply_with(lambda o, x, train, k=k: o + jax.random.uniform(k))}
        for k in jax.random.split(jax.random.key(1))
    ),
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


@pytest.mark.hole
def test_f2_the_gradient_of_evaluation_which_a_private_query_asks_is_traced() -> None:
    def with_rule(factor: float) -> Model:
        @jax.custom_vjp
        def same(x: Array) -> Array:
            return x

        same.defvjp(lambda x: (x, None), lambda _, g: (factor * g,))
        return apply_with(lambda o, x, train: o if train else same(o))

    asked = {"clipping": "attribute_records"}
    first, second = (noise_key(model=with_rule(f), **asked) for f in (1.0, 2.0))
    assert first != second


def own_settings(default: float) -> type[Settings]:
    """The settings of `shrunk`, whose author chose a default."""

    @flax.struct.dataclass(frozen=True)
    class Own(Settings):
        """Own."""

        shrink: float = setting(default, "Of an update.", above=0, traced=True)

    return Own


def shrunk(*, remembers: bool = False, **fields: bool) -> Any:
    """A factory whose updates are shrunk by a setting, or by what it remembers."""

    def make(config: Any) -> Any:
        def calibrate(ratio: Array, round_num: Array) -> Any:
            z = jnp.float32(8)
            epsilon = calibration.concentrated_epsilon(z, config.delta)
            return base.claimed(z, epsilon, config.delta)

        clip = clipping.make_clipping(config)
        made = base.chain(clip, base.Law(calibrate, any_epsilon=True))
        factor, update = jnp.asarray(config.settings.shrink, jnp.float32), made.update

        def shrinking(updates: Any, state: Any, **rest: Any) -> Any:
            by = state.clients["by"] if remembers else factor
            return update(jax.tree.map(lambda x: by * x, updates), state, **rest)

        def init(num_clients: int) -> MechanismState:
            return MechanismState({"by": jnp.full((num_clients,), factor)}, {})

        made = made._replace(update=shrinking, **fields)
        return made._replace(init=init) if remembers else made

    return make


@pytest.mark.hole
def test_f2_an_edited_default_or_another_field_of_a_plugin_shares_no_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def key(default: float, epsilon: float = 1.0, **code: bool) -> bytes:
        settings = own_settings(default)
        config_class = dataclasses.make_dataclass(
            "C", [], bases=(ExperimentConfig, settings), frozen=True
        )
        with monkeypatch.context() as patch:
            patch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
            mechanisms.register_mechanism(
                *("shrunk", shrunk(**code)),
                **{"settings": settings, "summary": "", "noise_setting": None},
            )
            told = {"mechanism": "shrunk", "clipping": "update_clip"}
            told |= {"epsilon": epsilon, "num_rounds": 2}
            config = resolve(config_class(**(dataclasses.asdict(SMALL) | told)))
            made = federation.build([config], digits())
        own = cell_of(made.cells.root, 0).secret
        return np.asarray(jax.random.key_data(own)).tobytes()

    assert key(1.0) == key(1.0)
    others = [
        key(1.0),
        key(0.5),
        key(1.0, epsilon=2.0),  # which it may read, though it scales no noise
        key(1.0, uniform_weights=True),
        key(1.0, needs_contribution=True),
        key(1.0, remembers=True),
        key(0.5, remembers=True),
    ]
    assert len({*others}) == len(others)


def phases(
    late: float,
    *,
    promised: float = 1,
    step: float = 1,
    server: float | None = None,
    traced: float = 1,
    first: float = 1,
    uniform: bool = False,
    by_size: bool = False,
) -> Any:
    """The factory of a mechanism as in docs/library.md; a number is in its code."""

    def make(config: Any) -> Any:
        def calibrate(ratio: Array, round_num: Array) -> Any:
            z = jnp.where(round_num < 1, 8.0, jnp.float32(late))
            if isinstance(config.l2_norm_clip, jax.core.Tracer):
                z = traced * z
            epsilon = calibration.concentrated_epsilon(z, config.delta)
            return base.claimed(z, epsilon, config.delta)

        law = base.Law(calibrate, any_epsilon=True, num_rounds=config.num_rounds)
        made = base.chain(clipping.make_clipping(config), law)
        if config.noise_sampler == "discrete":  # which code of one's own cannot have
            return made
        made = made._replace(
            least_multiplier=promised * made.least_multiplier,
            uniform_weights=uniform,
            init=lambda n: MechanismState({}, {"w": jnp.float32(first)}),
        )
        update = made.update

        def by(updates: Any, state: Any, **rest: Any) -> Any:
            turn = rest["num_examples" if by_size else "round_num"]
            noised, state, info = update(updates, state, **rest)
            turned = jax.tree.map(lambda x: x * jnp.asarray(1 + turn, x.dtype), noised)
            return turned, state, info

        made = made._replace(update=by)
        if (std := made.step_noise_std) is not None:
            made = made._replace(step_noise_std=lambda *a, **b: step * std(*a, **b))
        if server is None:
            return made

        def shrunk(params: Any, before: Any, state: Any, **rest: Any) -> Any:
            return jax.tree.map(lambda leaf: server * leaf, params), state

        return made._replace(server=shrunk)

    return make


def key_of_plugin(
    monkeypatch: pytest.MonkeyPatch, *code: Any, told: Any = None, **more: Any
) -> bytes:
    with monkeypatch.context() as patch:
        patch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
        mechanisms.register_mechanism(
            "phases", phases(*code, **more), summary="", noise_setting=None
        )
        return noise_key(mechanism="phases", **told or {})


@pytest.mark.hole
def test_mechanisms_of_one_name_that_differ_in_their_code_share_no_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = functools.partial(key_of_plugin, monkeypatch)
    assert key(4.0) == key(4.0)
    # Which the package draws on the host.
    discrete = {"noise_sampler": "discrete", "noise_bits": 20}
    steps = {"clipping": "per_example"}
    others = [
        key(4.0, told=discrete),
        key(3.0, told=discrete),
        key(4.0, told=steps),
        key(4.0, told=steps, step=0.5),
        key(4.0),
        key(4.0 + 2**-20),
        key(4.0, promised=0.5),
        key(4.0, server=0.5),
        key(4.0, server=0.25),
        key(4.0, traced=0.5),
        key(4.0, first=0.5),
        key(4.0, uniform=True),
        key(4.0, by_size=True),
    ]
    assert len({*others}) == len(others)


def test_code_of_the_package_has_no_digest_and_keeps_its_noise() -> None:
    config = small(clipping="update_clip")
    made = federation.build([config], digits())
    assert made.own_code == ((),)
    found = federation.program.run_digest(
        made.configs[0], made.mechanism, made.data.fingerprint
    )
    keys = jax.tree.map(jax.random.key_data, prng.run_keys(config.seed, found))
    np.testing.assert_array_equal(
        keys.secret, jax.random.key_data(made.cells.root.secret)[0]
    )


ELSEWHERE = """
import sys, json
sys.path[:0] = ["tests/helpers", "tests/federation"]
import jax
jax.nn.silu(jax.random.normal(jax.random.key(1), (3,)))  # traced before
import test_own_code as ours
print(json.dumps([ours.noise_key(**ours.PAIRS[name][0]).hex() for name in ours.FEW]))
"""
# What a program's text could name otherwise in another process: rules of Python
# functions, arrays, keys, and programs inside.
FEW = (
    *("the loss's gradient", "an array of an inner program", "a rule of batching"),
    *("a key", "dropout"),
)


def test_the_same_code_has_the_same_noise_in_every_process() -> None:
    process = start(ELSEWHERE, how="-c", PYTHONHASHSEED="7")
    out, error = process.communicate(timeout=200)
    assert out, error
    assert json.loads(out) == [noise_key(**PAIRS[name][0]).hex() for name in FEW]


def test_a_loss_of_ones_own_has_the_same_noise_on_every_kind_of_device() -> None:
    """Models that are built by name are computed otherwise there."""
    told = {"loss": smoothed(0.3), "model": None}
    keys = {
        noise_key(target=target.named_target(kind), **told) for kind in ("cpu", "cuda")
    }
    assert keys == {noise_key(**told)}


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
    noise_key(loss=loss, paired_noise=True)

    def printing(logits: Array, label: Array) -> Array:
        jax.debug.callback(print, label)
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
    told = small(clipping="update_clip"), tmp_path / "run"

    def train(smoothing: float) -> None:
        options = run.Options(resume=True)
        run.train(*told, dataset=digits(), loss=smoothed(smoothing), options=options)

    for smoothing in (0.3, 0.3):
        with pytest.raises(Started):
            train(smoothing)
    with pytest.raises(ValueError, match=r"cannot resume .* own_code is .* and was "):
        train(0.1)
