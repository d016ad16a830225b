"""A draw depends on its address alone."""

import itertools

import numpy as np
import pytest

from fedsvp_jax.prng import Draw, generator


def test_an_address_gives_the_same_numbers_whatever_was_drawn_before() -> None:
    first = generator(3, Draw.ASSIGN, 7).integers(1 << 40, size=4)
    generator(3, Draw.ASSIGN, 6).integers(1 << 40, size=100)
    again = generator(3, Draw.ASSIGN, 7).integers(1 << 40, size=4)
    np.testing.assert_array_equal(first, again)


def test_different_addresses_give_different_numbers() -> None:
    addresses = itertools.product(range(5), Draw, range(5))
    first = [generator(*address).integers(1 << 62) for address in addresses]
    assert len(set(first)) == len(first)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed must be >= 0, got -2"):
        generator(-2, Draw.ASSIGN)
