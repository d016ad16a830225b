"""No layout over devices decides whether XLA divides or multiplies.

XLA writes x/broadcast(s) as x·(1/s) where s has no other reader. A round on two devices
has other readers than one on one device, and so had other bits at ε = .3 and .7.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend import core
from small_runs import digits, small

from fedsvp_jax import mechanisms
from fedsvp_jax.federation import build
from fedsvp_jax.mechanisms.shapley_guided import guided_multiplier
from fedsvp_jax.run.trainer import Trainer

_WIDENS = ("broadcast_in_dim", "reshape", "convert_element_type", "squeeze")


def divisions_by_fewer(jaxpr: Any) -> list[str]:
    """Quotients of floats by numbers, not constants, that are fewer than they."""
    fewest: dict[Any, float] = {}  # numbers in a variable; in a constant no end of them

    def numbers(var: Any) -> float:
        return math.inf if hasattr(var, "val") else fewest.get(var, var.aval.size)

    found = []
    for eqn in jaxpr.eqns:
        told, name = [numbers(var) for var in eqn.invars], eqn.primitive.name
        if all(number == math.inf for number in told):
            fewest.update(dict.fromkeys(eqn.outvars, math.inf))
        elif name in _WIDENS:
            fewest[eqn.outvars[0]] = min(told[0], eqn.outvars[0].aval.size)
        elif name == "div" and told[1] < eqn.outvars[0].aval.size:
            result = eqn.outvars[0].aval
            floating = jnp.issubdtype(result.dtype, jnp.floating)
            where = f"{result.str_short()} in {eqn.source_info.name_stack}"
            found += [where] if floating else []
        for inner in core.jaxprs_in_params(eqn.params):
            found += divisions_by_fewer(inner)
    return found


def test_the_search_finds_a_quotient_by_one_number() -> None:
    def divided(x: jax.Array, s: jax.Array) -> jax.Array:
        return jax.lax.map(lambda row: row / s, x)

    assert divisions_by_fewer(jax.make_jaxpr(divided)(jnp.ones((3, 2)), 0.3).jaxpr)
    assert not divisions_by_fewer(
        jax.make_jaxpr(partial(divided, s=0.3))(jnp.ones((3, 2))).jaxpr
    )


@pytest.mark.hole
def test_clients_side_by_side_share_no_quotient_by_epsilon() -> None:
    side_by_side = jax.vmap(guided_multiplier, (0, None, None))
    made = jax.make_jaxpr(side_by_side)(jnp.ones(3), jnp.float32(0.3), 0.1)
    assert not divisions_by_fewer(made.jaxpr)


CASES: list[dict[str, Any]] = [
    *({"mechanism": name} for name in mechanisms.mechanism_names()),
    {"mechanism": "nbafl", "downlink_noise": True, "clipping": "per_example"},
    {"mechanism": "dp_fedavg", "adaptive_clip": True},
    {"mechanism": "gaussian", "clipping": "attribute_records"},
    {"shapley": "additive", "contribution_release": "laplace"},
    {"shapley": "gp", "shapley_trainings": 4, "utility": "loss"},
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", CASES, ids=str)
def test_a_round_divides_by_no_number_that_is_broadcast(
    changes: dict[str, Any],
) -> None:
    attributes = 4 if "shapley" in changes else None
    config = small(client_chunk_size=2, num_attributes=attributes, **changes)
    trainer = Trainer(build([config], digits()))
    traced = jax.make_jaxpr(trainer._compiled)(*trainer.arguments())
    assert divisions_by_fewer(traced.jaxpr) == []
