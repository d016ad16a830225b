"""What a mechanism's uploads must say of their noise before it may run."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from published import make, published
from small_runs import digits, small

from fedsvp_jax import federation
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.base import Law, chain, claimed
from fedsvp_jax.mechanisms.played import check_noise
from fedsvp_jax.mechanisms.sensitivity import make_sensitivity

ROUNDS = 5


def changed(name: str, value: float, *, where: tuple[float, int] | None) -> Mechanism:
    """NbAFL whose uploads tell `value`: all, or those of one ratio and round."""
    honest = make("nbafl")

    def update(
        *given: Any, contribution_ratio: Any, round_num: Any, **more: Any
    ) -> Any:
        at = {"contribution_ratio": contribution_ratio, "round_num": round_num}
        noised, state, info = honest.update(*given, **at, **more)
        ratio, round_ = where or (contribution_ratio, round_num)
        here = (contribution_ratio == ratio) & (round_num == round_)
        told = jnp.where(here, jnp.float32(value), getattr(info, name))
        return noised, state, info.replace(**{name: told})

    return honest._replace(update=update)


@pytest.mark.hole
@pytest.mark.parametrize("name", ["noise_multiplier", "noise_std", "step_noise_std"])
@pytest.mark.parametrize("value", [-1e-6, np.inf, np.nan])
def test_g20_noise_that_cannot_be_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} of an upload must be at least 0"):
        check_noise(changed(name, value, where=None), ROUNDS)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("round_num", [0, ROUNDS - 1])
def test_the_ends_of_ratio_and_rounds_are_looked_at(ratio: float, round_num: int):
    found = changed("noise_std", -1.0, where=(ratio, round_num))
    with pytest.raises(ValueError, match=rf"in round {round_num + 1} at R = {ratio:g}"):
        check_noise(found, ROUNDS)


def own(
    z: Callable[[Any, Any], Any], says: float = 1.0, *, counts: Any = None, **law: Any
) -> Mechanism:
    """A mechanism from outside, of noise multiplier z(R, round) and the ε it says."""
    rule = make_sensitivity(published("nbafl", sensitivity="update_clip"))

    def calibrate(ratio: Any, round_num: Any, bound: Any) -> Any:
        told = claimed(z(ratio, jnp.float32(round_num)), says, 1e-5)
        return told if counts is None else told._replace(counted_multiplier=counts)

    return chain(rule, Law(calibrate, **law))


GUIDED, ANY = {"needs_contribution": True}, {"any_epsilon": True}
TWO = lambda r, t: 2.0  # noqa: E731 (which spends 1.99 at δ = 1e-5)
COUNTS_TWO = own(lambda r, t: 0.5, counts=jnp.float32(2))


@pytest.mark.hole
@pytest.mark.parametrize(
    ("found", "match"),
    [
        # N17: promise and ledger said proved of one that a plugin registered.
        (own(lambda r, t: 2.0 + t, num_rounds=ROUNDS), None),
        (own(lambda r, t: 8.0 - 2.0 * t), r"least_multiplier, got 6.* in round 2 at"),
        (own(lambda r, t: 2.0 + r, **GUIDED), r"has at any R, got 2\.125"),
        (own(lambda r, t: 2 - r * (1 - r), **GUIDED), r"got 1\.89.* at R = 0\.125"),
        # N21: the basic row called a plugin's (ε, δ) proved, whatever its noise was.
        (own(TWO, 0.3), r"spends at its delta, got 0\.3 in round 1 at R = 1$"),
        (own(TWO, 1.9, **ANY), r"spends at its delta, got 1\.9 in round 1 at R"),
        (own(TWO, 2.1, **ANY), None),
        (own(TWO, 1.0), None),  # the classical formula from 1 on: nominal
        (COUNTS_TWO, "counted_multiplier must be at most"),
    ],
)
def test_n17_n21_noise_and_claims_that_are_not_sure_are_refused(
    found: Mechanism, match: str | None
) -> None:
    if match is None:
        return check_noise(found, ROUNDS)
    with pytest.raises(ValueError, match=match):
        check_noise(found, ROUNDS)


@pytest.mark.hole
def test_n21_the_largest_client_s_noise_is_looked_at_too() -> None:
    """A promise rests on the smallest's, which had the most of it here."""
    rule = make_sensitivity(
        published("nbafl", sensitivity="attribute_records", private_clip=1.0)
    )

    def calibrate(ratio: Any, round_num: Any, bound: Any) -> Any:
        return claimed(8.0 * bound, 1.0, 1e-5)

    found = chain(rule, Law(calibrate, min_num_examples=10))
    check_noise(found, ROUNDS, sizes=(10, 10))
    with pytest.raises(ValueError, match=r"least_multiplier, .* of 1000 examples"):
        check_noise(found, ROUNDS, sizes=(10, 1000))


@pytest.mark.hole
def test_g17_noise_beyond_float32_is_refused_when_the_program_is_built():
    """Over 4000 rounds a contraction of .5 asks for infinite noise in the first."""
    config = small(mechanism="dpa", contraction=0.5, num_rounds=4000)
    with pytest.raises(ValueError, match="of an upload must be at least 0 and finite"):
        federation.build([config], digits())
