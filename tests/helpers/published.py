"""What a mechanism is told in tests: the published set-up, with changes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize, special, stats

from fedsvp_jax import mechanisms
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo, Params
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig

SET_UP = MechanismConfig(  # FedSVA (arXiv 2503.12958v2), sec. 4.1
    epsilon=0.2,
    delta=0.02,
    l2_norm_clip=20.0,
    num_rounds=400,
    num_clients=100,
    cohort_size=10,
    local_epochs=2,
    batch_size=50,
)


def published(name: str = "none", **changes: Any) -> MechanismConfig:
    """The set-up with changes; those that only `name` knows go to its own settings."""
    shared = {field.name for field in dataclasses.fields(MechanismConfig)}
    own = {key: value for key, value in changes.items() if key not in shared}
    told = {key: value for key, value in changes.items() if key in shared}
    kind = mechanisms.about(name).settings
    settings = kind(**own) if kind else None
    assert kind or not own, f"{name} has no settings {own}"
    return dataclasses.replace(SET_UP, settings=settings, **told)


def make(name: str, **changes: Any) -> Mechanism:
    """The mechanism of `published`."""
    return mechanisms.make_mechanism(name, published(name, **changes))


def epsilon_of(multiplier: float, delta: float) -> float:
    """ε of one Gaussian at δ: Balle and Wang 2018, Theorem 8, solved with scipy."""
    half, quantile = 0.5 / multiplier, stats.norm.isf(delta)

    def excess(epsilon: float) -> float:
        first = special.log_ndtr(half - epsilon * multiplier)
        second = epsilon + special.log_ndtr(-half - epsilon * multiplier)
        return first + np.log(-np.expm1(second - first)) - np.log(delta)

    above = 2 * half**2 + 2 * half * quantile
    return float(optimize.brentq(excess, 0.0, above, xtol=1e-12, rtol=1e-14))


def says(told: Any, *, rtol: float = 1e-6, **expected: Any) -> None:
    """Asserts numbers of a `NoiseInfo`, a claim of an upload or a `Mechanism`."""
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(told, name), value, rtol, err_msg=name)


def served(
    mechanism: Mechanism,
    after: Params,
    before: Params,
    infos: NoiseInfo | None = None,
    valid: Array | None = None,
    *,
    state: MechanismState | None = None,
    key: Array | None = None,
    round_num: int = 0,
) -> tuple[Params, MechanismState]:
    """The server's step of a round between two models."""
    assert mechanism.server is not None
    return mechanism.server(
        after,
        before,
        mechanism.init(100) if state is None else state,
        key=jax.random.key(0) if key is None else key,
        round_num=jnp.int32(round_num),
        infos=infos,
        valid=valid,
    )


def upload(
    mechanism: Mechanism,
    update: Array,
    *,
    state: MechanismState | None = None,
    num_examples: int = 2000,
    ratio: float = 1.0,
    round_num: int = 0,
) -> tuple[Params, MechanismState, NoiseInfo]:
    """One client's upload of {"w": update}, from a server's model of zeros."""
    return mechanism.update(
        {"w": update},
        mechanism.init(100).of(0) if state is None else state,
        key=jax.random.key(0),
        num_examples=jnp.int32(num_examples),
        contribution_ratio=jnp.float32(ratio),
        round_num=jnp.int32(round_num),
        params={"w": jnp.zeros_like(update)},
    )
