"""What a mechanism's uploads must say of their noise before it may run."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from law_of_noise import check_noise as check_law
from published import make, published
from small_runs import digits, small

from fedsvp_jax import federation
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.base import (
    Basis,
    Law,
    chain,
    claimed,
    noised_upload,
    stateless,
)
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon
from fedsvp_jax.mechanisms.clipping import make_clipping
from fedsvp_jax.mechanisms.noise import clip_into_ball
from fedsvp_jax.mechanisms.noise_check import check_noise

ROUNDS = 5
TOLD = published("nbafl", num_rounds=ROUNDS, clipping="update_clip")


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
def test_noise_that_cannot_be_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} of an upload must be at least 0"):
        check_noise(changed(name, value, where=None), TOLD, "nbafl")


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("round_num", [0, ROUNDS - 1])
def test_the_ends_of_ratio_and_rounds_are_looked_at(ratio: float, round_num: int):
    found = changed("noise_std", -1.0, where=(ratio, round_num))
    with pytest.raises(ValueError, match=rf"in round {round_num + 1} at R = {ratio:g}"):
        check_noise(found, TOLD, "nbafl")


@pytest.mark.hole
@pytest.mark.parametrize("size", [20, 600])
def test_the_noise_of_the_smallest_and_of_the_largest_client_is_looked_at(
    size: int,
) -> None:
    """Of the smallest client NaN passed, and its upload left with NaN for noise."""
    honest = make("nbafl")

    def update(*given: Any, num_examples: Any, **more: Any) -> Any:
        noised, state, info = honest.update(*given, num_examples=num_examples, **more)
        told = jnp.where(num_examples == size, jnp.nan, info.noise_std)
        return noised, state, info.replace(noise_std=told)

    sizes = {"min_num_examples": 20.0, "max_num_examples": 600}
    with pytest.raises(ValueError, match=rf"got nan in .* of a client of {size} exam"):
        check_noise(honest._replace(update=update), TOLD.replace(**sizes), "nbafl")


def own(
    z: Callable[[Any, Any], Any], says: float = 1.0, *, counts: Any = None, **law: Any
) -> Mechanism:
    """A mechanism from outside, of noise multiplier z(R, round) and the ε it says."""
    rule = make_clipping(published("nbafl", clipping="update_clip"))

    def calibrate(ratio: Any, round_num: Any) -> Any:
        told = claimed(z(ratio, jnp.float32(round_num)), says, 1e-5)
        return told if counts is None else told._replace(counted_multiplier=counts)

    return chain(rule, Law(calibrate, **law))


GUIDED, ANY = {"needs_contribution": True}, {"any_epsilon": True}
TWO = lambda r, t: 2.0  # noqa: E731 (which spends 1.99 at δ = 1e-5)
COUNTS_TWO = own(lambda r, t: 0.5, counts=jnp.float32(2))


@pytest.mark.parametrize(
    ("found", "match"),
    [
        (own(lambda r, t: 2.0 + t, num_rounds=ROUNDS), None),
        (own(lambda r, t: 8.0 - 2.0 * t), r"least_multiplier, got 6.* in round 2 at"),
        (own(lambda r, t: 2.0 + r, **GUIDED), r"has at any R, got 2\.125"),
        (own(lambda r, t: 2 - r * (1 - r), **GUIDED), r"got 1\.89.* at R = 0\.125"),
        (own(TWO, 0.3), r"spends at its delta, got 0\.3 in round 1 at R = 1$"),
        (own(TWO, 1.9, **ANY), r"spends at its delta, got 1\.9 in round 1 at R"),
        (own(TWO, 2.1, **ANY), None),
        (own(TWO, 1.0), None),  # the classical formula from 1 on: nominal
        (COUNTS_TWO, "counted_multiplier must be at most"),
    ],
)
def test_the_law_refuses_noise_and_claims_that_are_not_sure(
    found: Mechanism, match: str | None
) -> None:
    if match is None:
        return check_law(found, TOLD)
    with pytest.raises(ValueError, match=match):
        check_law(found, TOLD)


def averaged(
    *, counts: float, std: float, view: str = "observer", **about: Any
) -> Mechanism:
    """A mechanism from outside whose claim is about a cohort's average."""
    z = jnp.float32(about.pop("least", counts))

    def update(updates: Any, state: Any, *, key: Any, **rest: Any) -> Any:
        told = claimed(counts, concentrated_epsilon(z, 1e-5), 1e-5)
        clipped = clip_into_ball(updates, 1.0)
        told = {"upload_noise": told, "std": jnp.float32(std), "key": key}
        one = jnp.float32(1)
        upload, info = noised_upload(clipped, sensitivity=one, at_upload=True, **told)
        return upload, state, info

    found = Mechanism(
        init=stateless,
        update=update,
        uniform_weights=True,
        least_multiplier=z,
        most_epsilon=concentrated_epsilon(z, 1e-5),
        most_delta=1e-5,
        basis=Basis("add or remove a client", True, "", view=view, any_epsilon=True),
    )
    return found._replace(**about)


SIZES = {"min_num_examples": 10, "max_num_examples": 1000}
COHORT = published("nbafl", num_rounds=2, colluders=3, **SIZES)  # of 10


@pytest.mark.parametrize(
    ("told", "match"),
    [
        (
            {"counts": 10.0, "std": 0.001},
            "counted_multiplier must be at most the least",
        ),
        ({"counts": 2.0, "std": 2.0}, None),
        ({"counts": 2.0, "std": 2.0, "least": 2 * 10**0.5}, None),
        (
            {"counts": 2.0, "std": 2.0, "least": 6.33},
            "average must be at least least_mu",
        ),
        ({"counts": 2.0, "std": 2.0, "least": 2 * 7**0.5, "view": "colluders"}, None),
        ({"counts": 2.0, "std": 2.0, "least": 5.3, "view": "colluders"}, "got 5.2915"),
        ({"counts": 2.0, "std": 2.0, "least": 6.1, "view": "curious_client"}, "got 6 "),
        # One client of 1000 examples among nine of 10: z·sqrt(1 + 9/100²).
        (
            {"counts": 2.0, "std": 2.0, "least": 2.1, "uniform_weights": False},
            r"got 2\.0009.* of 1000 examples",
        ),
        ({"counts": 2.0, "std": 2.0, "most_epsilon": 0.2}, "must be at most most_eps"),
        ({"counts": 2.0, "std": 2.0, "most_delta": 1e-6}, "must be at most most_delta"),
    ],
)
def test_the_law_plays_a_claim_about_an_average_by_whole_cohorts(
    told: dict[str, Any], match: str | None
) -> None:
    if match is None:
        return check_law(averaged(**told), COHORT)
    with pytest.raises(ValueError, match=match):
        check_law(averaged(**told), COHORT)


@pytest.mark.hole
def test_noise_beyond_float32_is_refused_when_the_program_is_built():
    """Over 4000 rounds a contraction of .5 asks for infinite noise in the first."""
    config = small(mechanism="dpa", contraction=0.5, num_rounds=4000)
    with pytest.raises(ValueError, match="of an upload must be at least 0 and finite"):
        federation.build([config], digits())


@pytest.mark.hole
def test_an_epsilon_that_the_noise_does_not_give_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A plugin's own ε was 100 times too small: "basic 0.006 … pld 2.512"."""
    check_noise(own(TWO, 0.0199, **ANY), TOLD, "mine")
    (record,) = caplog.records
    assert "mechanism mine says ε = 0.0199 at δ = 1e-05" in record.getMessage()
    assert "noise_multiplier 2 spends 1.99" in record.getMessage()
    caplog.clear()
    check_noise(own(TWO, 1.995, **ANY), TOLD, "mine")
    check_noise(own(TWO, 0.0199, **ANY), TOLD, "nbafl")  # built in: proved elsewhere
    check_noise(averaged(counts=2.0, std=2.0), COHORT, "mine")  # of a cohort's average
    assert not caplog.records
