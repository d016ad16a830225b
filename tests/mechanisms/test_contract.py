"""One contract over every registered mechanism."""

import math
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from published import SET_UP, epsilon_of, make, published, says, served, upload

from fedsvp_jax import mechanisms
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo, Params
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, noise
from fedsvp_jax.mechanisms.base import Law, UploadNoise, chain, claimed
from fedsvp_jax.mechanisms.clipping import make_clipping

NAMES = mechanisms.mechanism_names()
NOISY = tuple(name for name in NAMES if name != "none")
WIDE = 1e9  # a clip that nothing reaches


def config_of(name: str, **changes) -> MechanismConfig:
    small = {"epsilon": 0.5, "l2_norm_clip": 2.0, "min_num_examples": 50.0}
    small |= {"num_rounds": 8, "num_clients": 6, "cohort_size": 3}
    return published(name, **(small | changes))


def mechanism_of(name: str, **changes) -> Mechanism:
    return mechanisms.make_mechanism(name, config_of(name, **changes))


def tree(dtype: jnp.dtype = jnp.float32) -> Params:
    leaf = jnp.linspace(-1.0, 1.0, 21).at[0].set(-0.0).reshape(3, 7)
    return {"a": leaf.astype(dtype), "b": 0.5 * leaf[0]}


def call(
    mechanism: Mechanism, updates: Params, key: Array
) -> tuple[Params, MechanismState, NoiseInfo]:
    return mechanism.update(
        updates,
        mechanism.init(6).of(0),
        key=key,
        num_examples=jnp.int32(100),
        contribution_ratio=jnp.float32(0.4),
        round_num=jnp.int32(2),
        params=jax.tree.map(jnp.zeros_like, updates),
    )


def silent(name: str) -> MechanismConfig:
    """The limit of no noise and no clip."""
    quiet = {
        "dp_fedavg": {"noise_multiplier": 0.0, "l2_norm_clip": WIDE},
        "reestimation": {"l2_norm_clip": WIDE},
    }
    # As an array, which passes unchecked: no setting may be infinite here.
    changes = {"epsilon": jnp.float32(jnp.inf), "allow_large_epsilon": True}
    return config_of(name, **(changes | quiet.get(name, {})))


def bits(params: Params) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params)]


@pytest.mark.parametrize("name", NAMES)
def test_noise_to_zero_is_fedavg_to_the_bit(name: str):
    mechanism = mechanisms.make_mechanism(name, silent(name))
    noised, _, info = call(mechanism, tree(), jax.random.key(0))
    assert info.noise_std == 0 and info.noise_l2 == 0 and info.clipped == 0
    assert bits(noised) == bits(tree())


@pytest.mark.parametrize("name", NOISY)
def test_noise_is_gaussian_with_the_promised_std(name: str):
    updates = {"w": jnp.zeros((40, 50)), "b": jnp.zeros((500,))}
    noised, _, info = call(mechanism_of(name), updates, jax.random.key(3))
    draws = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(noised)])
    assert info.noise_std > 0
    test = scipy.stats.kstest(draws / float(info.noise_std), "norm")
    assert test.pvalue > 1e-3
    np.testing.assert_allclose(info.noise_l2, np.linalg.norm(draws), rtol=1e-5)
    assert abs(np.corrcoef(draws[:500], draws[-500:])[0, 1]) < 0.2


@pytest.mark.parametrize("name", NOISY)
def test_std_is_the_noise_multiplier_times_the_sensitivity(name: str):
    mechanism = mechanism_of(name)
    _, _, info = call(mechanism, tree(), jax.random.key(0))
    multiplier = float(info.noise_multiplier)
    np.testing.assert_allclose(info.noise_std, multiplier * info.sensitivity, rtol=1e-6)
    together = math.sqrt(SET_UP.cohort_size) if mechanism.basis.central else 1.0
    least = float(np.min(mechanism.least_multiplier))
    assert multiplier * together >= least * (1 - 1e-6) > 0
    assert 0 < info.epsilon < np.inf and 0 < info.delta < 1


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_used_once(name: str, monkeypatch: pytest.MonkeyPatch):
    drawn: list[bytes] = []
    gaussian = noise._gaussian

    def recorded(key: Array, *rest, **more) -> Array:
        drawn.append(np.asarray(jax.random.key_data(key)).tobytes())
        return gaussian(key, *rest, **more)

    monkeypatch.setattr(noise, "_gaussian", recorded)
    mechanism = mechanism_of(name)
    with jax.debug_key_reuse(True):
        first = bits(call(mechanism, tree(), jax.random.key(1))[0])
    assert len(drawn) == len(set(drawn)) == (name != "none")
    assert first == bits(call(mechanism, tree(), jax.random.key(1))[0])
    other = bits(call(mechanism, tree(), jax.random.key(2))[0])
    assert (first == other) == (name == "none")


@pytest.mark.parametrize("name", NAMES)
def test_state_is_scalars_per_client_and_keeps_its_shape(name: str):
    mechanism = mechanism_of(name)
    state = mechanism.init(6)
    assert all(leaf.shape == (6,) for leaf in jax.tree.leaves(state.clients))
    assert all(leaf.shape == () for leaf in jax.tree.leaves(state.shared))
    _, after, info = call(mechanism, tree(), jax.random.key(0))
    before = state.of(0)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    for leaf in jax.tree.leaves((after, info)):
        assert leaf.shape == () and leaf.dtype == jnp.float32
    assert after.shared == before.shared


@pytest.mark.parametrize("name", NAMES)
def test_jit_and_a_traced_config_agree_with_the_plain_call(name: str):
    def called(config: MechanismConfig) -> tuple[Params, MechanismState, NoiseInfo]:
        made = mechanisms.make_mechanism(name, config)
        return call(made, tree(), jax.random.key(5))

    config = mechanisms.with_analytic_multiplier(config_of(name))
    plain, traced = called(config), jax.jit(called)(config)
    chex.assert_trees_all_close(plain, traced, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("name", NAMES)
def test_dtypes_are_kept(name: str, dtype: jnp.dtype):
    mechanism, key = mechanism_of(name), jax.random.key(0)
    noised, _, _ = jax.eval_shape(lambda: call(mechanism, tree(dtype), key))
    assert [leaf.dtype for leaf in jax.tree.leaves(noised)] == [dtype, jnp.float32]


@pytest.mark.parametrize("name", NAMES)
def test_the_server_step_keeps_structure_and_ignores_empty_places(name: str):
    asked = {"nbafl": {"downlink_noise": True}, "dp_fedavg": {"adaptive_clip": True}}
    mechanism = mechanism_of(name, **asked.get(name, {}))
    if mechanism.server is None:
        assert name not in ("nbafl", "reestimation", "dp_fedavg")
        return
    _, _, info = call(mechanism, tree(), jax.random.key(0))
    valid, zeros = (
        jnp.asarray([True, True, False]),
        jax.tree.map(jnp.zeros_like, tree()),
    )

    def serve(last: float) -> tuple[Params, MechanismState]:
        infos = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf, last]), info)
        return served(mechanism, tree(), zeros, infos, valid)

    one_way, other_way = serve(0.0), serve(5.0)
    before = tree(), mechanism.init(6)
    assert jax.tree.structure(one_way) == jax.tree.structure(before)
    assert bits(one_way) == bits(other_way)


@pytest.mark.parametrize("name", ["nbafl", "time_varying", "dpa", "fedsva", "gaussian"])
def test_per_example_noise_goes_into_the_steps_and_not_on_the_upload(name: str):
    mechanism = mechanism_of(
        name, clipping="per_example", contribution_release="worst_case"
    )
    noised, _, info = call(mechanism, tree(), jax.random.key(0))
    assert bits(noised) == bits(tree())
    assert info.noise_l2 == 0 and info.noise_std == 0
    assert mechanism.step_noise_std is not None
    step = mechanism.step_noise_std(jnp.float32(0.4), round_num=jnp.int32(2))
    np.testing.assert_allclose(step, info.step_noise_std, rtol=1e-6)


def test_claims_are_nominal_wherever_a_step_is_not_proved():
    def proved(name: str, **changes) -> bool:
        return mechanism_of(name, **changes).basis.proved

    assert not proved("nbafl") and not proved("fedsva") and not proved("none")
    for choice in ("weight_clip", "update_clip", "per_example", "attribute_records"):
        assert proved("nbafl", clipping=choice)
        assert not proved("fedsva", clipping=choice)
        for release in ("worst_case", "laplace", "randomized_response"):
            released = {"clipping": choice, "contribution_release": release}
            assert proved("fedsva", **released)
    assert not proved("reestimation", clipping="update_clip")
    assert proved("dp_fedavg")


@pytest.mark.hole
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.02])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0, 300.0])
@pytest.mark.parametrize(
    "changes",
    [
        {"clipping": "update_clip"},
        {"clipping": "update_clip", "relation": "add_remove"},
        {"clipping": "weight_clip"},
        {"clipping": "per_example"},
        {"clipping": "per_example", "relation": "add_remove", "batches": "poisson"}
        | {"max_num_examples": 500},
        {"clipping": "attribute_records", "min_num_examples": 40.0},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_gaussian_has_the_least_noise_of_its_epsilon(
    epsilon: float, delta: float, changes: dict[str, Any]
) -> None:
    """Whatever --calibration says, and at ε ≥ 1; Δ by hand, ε of z by scipy."""
    how, halved = changes["clipping"], changes.get("relation") == "add_remove"
    steps = 2 * (500 // 50) if "batches" in changes else 2
    moved = {
        "per_example": math.sqrt(steps) * 2 * 20 / 50,
        "attribute_records": 2 * 0.3 / 40,
    }.get(how, 2 * 20.0) / (1 + halved)
    mechanism = make("gaussian", epsilon=epsilon, delta=delta, **changes)
    _, _, info = upload(mechanism, jnp.ones(3), num_examples=40)
    z = float(info.noise_multiplier)
    assert epsilon_of(z, delta) == pytest.approx(epsilon, rel=2e-6)
    says(info, sensitivity=moved, epsilon=epsilon, delta=delta)
    std = info.step_noise_std if how == "per_example" else info.noise_std
    assert float(std) == pytest.approx(z * moved, rel=1e-6)
    says(mechanism, least_multiplier=z, most_epsilon=epsilon, most_delta=delta)
    assert mechanism.basis.proved and mechanism.basis.any_epsilon
    assert (mechanism.step_noise_std is None) == (how != "per_example")


@pytest.mark.hole
@pytest.mark.parametrize("sampler", ["gaussian", "discrete"])
def test_gaussian_shared_by_a_cohort_has_its_epsilon_against_the_colluders(
    sampler: str,
) -> None:
    """Eight of ten clients' parts, of which nobody tells, are the z of ε = 3."""
    told = {"clipping": "update_clip", "noise_trust": "secure_aggregation"}
    told |= {"colluders": 2, "noise_sampler": sampler, "noise_bits": 24}
    mechanism = make("gaussian", epsilon=3.0, delta=1e-5, **told)
    _, _, info = upload(mechanism, jnp.ones(3))
    z = math.sqrt(8) * float(info.noise_std) / (2 * 20)
    assert epsilon_of(z, 1e-5) == pytest.approx(3, rel=1e-5)
    says(mechanism, least_multiplier=z)
    assert mechanism.basis.proved and mechanism.basis.central


def test_a_promise_rests_on_the_worst_ratio_of_every_round() -> None:
    """z = (3 − 2R)(t + 1), ε = (1 + R)/(t + 1)/10, δ = (2 − R)(t + 1)/100."""

    def calibrate(ratio: Array, round_num: Array) -> UploadNoise:
        t = round_num.astype(jnp.float32) + 1
        return claimed(
            (3 - 2 * ratio) * t, 0.1 * (1 + ratio) / t, (2 - ratio) * t / 100
        )

    law = Law(calibrate, ("tested",), num_rounds=2, needs_contribution=True)
    found = chain(make_clipping(published(clipping="weight_clip")), law)
    says(found, least_multiplier=[1, 2], most_epsilon=[0.2, 0.1])
    says(found, most_delta=[0.02, 0.04])
