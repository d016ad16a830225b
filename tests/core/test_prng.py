"""A draw depends on its address alone."""

import itertools
from collections.abc import Callable

import chex
import jax
import pytest

from fedsvp_jax.core import prng
from fedsvp_jax.core.prng import Draw, generator


def test_different_addresses_give_different_numbers() -> None:
    addresses = itertools.product(range(5), Draw, range(5))
    first = [generator(*address).integers(1 << 62) for address in addresses]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("size", [1, 7, 22_602])
def test_normal_numbers_have_the_bits_of_jaxs(size: int) -> None:
    """In a program of their own, scaled, and for several keys side by side."""
    keys = jax.random.split(jax.random.key(5), 3)

    def drawn(normal: Callable[[jax.Array], jax.Array]) -> list[jax.Array]:
        scaled = jax.jit(lambda key, std: std * normal(key))(keys[0], 0.3)
        return [jax.jit(normal)(keys[0]), jax.jit(jax.vmap(normal))(keys), scaled]

    found = drawn(lambda key: prng.normal(key, size))
    chex.assert_trees_all_equal(
        found, drawn(lambda key: jax.random.normal(key, (size,)))
    )
