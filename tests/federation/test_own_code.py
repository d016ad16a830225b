"""Noise of a seed proves nothing with code of one's own, which no setting names."""

from typing import Any

import jax
import optax
import pytest
from small_runs import digits, small

from fedsvp_jax import federation, models
from fedsvp_jax.federation.run_digest import KEYED, OWN_CODE
from fedsvp_jax.models.networks import MLP
from fedsvp_jax.round.aggregator import WEIGHTED_SUM
from fedsvp_jax.round.state import Aggregator

MODEL = models.from_linen(MLP(num_classes=10, hidden=(4,)))
LOSS = optax.softmax_cross_entropy_with_integer_labels
OWN = Aggregator(WEIGHTED_SUM.encode, WEIGHTED_SUM.decode, needs_uploads=True)


def claim(*, key: bytes | None = None, **code: Any) -> Any:
    config = small(
        mechanism="gaussian", clipping="update_clip", secret_noise=key is not None
    )
    built = federation.build([config], digits(), noise_key=key, **code)
    return built.mechanism.basis


@pytest.mark.hole
@pytest.mark.parametrize(
    "code",
    [{"model": MODEL}, {"loss": LOSS}, {"aggregator": OWN}],
    ids=["model", "loss", "aggregator"],
)
def test_a_part_of_ones_own_is_proved_with_secret_noise_alone(code: Any) -> None:
    assert claim().proved and KEYED not in claim().assumptions
    seeded, secret = claim(**code), claim(key=bytes(8), **code)
    assert not seeded.proved
    assert OWN_CODE in seeded.assumptions
    assert secret.proved
    assert OWN_CODE not in secret.assumptions
    assert KEYED in secret.assumptions


def test_paired_noise_is_nominal_for_its_own_reason() -> None:
    config = small(mechanism="gaussian", clipping="update_clip", paired_noise=True)
    made = federation.build([config], digits(), model=MODEL).mechanism.basis
    assert not made.proved
    assert "paired_noise" in made.assumptions
    assert OWN_CODE not in made.assumptions


def test_the_noise_follows_the_settings() -> None:
    """Of built-in code nothing else decides it."""
    roots = [
        federation.build([small(l2_norm_clip=clip)], digits()).cells.root.secret
        for clip in (1.0, 1.0, 2.0)
    ]
    first, again, other = (jax.random.key_data(root).tolist() for root in roots)
    assert first == again != other
