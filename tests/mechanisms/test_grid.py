"""Uploads on a grid: the step, the noise, room for rounding, and modular sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.mechanisms import grid as grids
from fedsvp_jax.mechanisms.grid import Grid

PLAIN = Grid(bits=16, summed=1, norm=1.0)


def noised(vector, std, grid=PLAIN, seed=0, num_examples=1):
    tree, key = {"w": jnp.asarray(vector, jnp.float32)}, jax.random.key(seed)
    told = {"num_examples": jnp.int32(num_examples), "key": key}
    found, length = grids.add_discrete_noise(tree, jnp.float32(std), grid, **told)
    return np.asarray(found["w"]), float(length)


@pytest.mark.parametrize("bits", [8, 16, 24])
@pytest.mark.parametrize(
    ("summed", "norm", "std"), [(1, 0.3, 2.0), (10, 7.0, 0.01), (7, 3e38, 1e38)]
)
def test_the_step_is_the_power_of_two_whose_modulus_holds_the_sum(
    bits, summed, norm, std
):
    step = float(grids.grid_step(Grid(bits, summed, norm), jnp.float32(std)))
    needed = 2 * (summed * norm + 8 * summed**0.5 * std)
    assert np.log2(step) == round(np.log2(step))
    assert needed <= step * 2**bits <= 2 * needed * (1 + 1e-6)


def test_the_noise_has_the_std_asked_for_and_lies_on_the_grid():
    vector = np.linspace(-0.01, 0.01, 20_000)
    sent, length = noised(vector, 0.5)
    step = float(grids.grid_step(PLAIN, jnp.float32(0.5)))
    np.testing.assert_array_equal(np.round(sent / step) * step, sent)
    added = sent - vector
    assert np.std(added) == pytest.approx(0.5, rel=0.03)
    assert abs(np.mean(added)) < 0.02
    assert length == pytest.approx(np.linalg.norm(added), rel=0.01)


def test_rounding_leaves_neighbours_as_far_apart_as_they_may_be():
    """Two vectors beside the edges of the grid, which rounding drives apart."""
    apart, size = 0.02, 400
    grid = Grid(18, 1, 1.0, apart=lambda held: apart / held.astype(jnp.float32))
    step = float(grids.grid_step(grid, jnp.float32(0)))
    kept = 1 - grids.rounding_share(apart / 2, step, size)
    middle = (np.arange(size) + 0.5) * step / kept
    away = 0.9999 * apart / 2 / size**0.5
    low = noised(middle - away / 2, 0.0, grid, num_examples=2)[0]
    high = noised(middle + away / 2, 0.0, grid, num_examples=2)[0]
    distance = np.linalg.norm((high - low).astype(np.float64))
    assert 0.9 * apart / 2 < distance <= apart / 2
    plain = [np.rint((middle * kept + sign * away / 2) / step) for sign in (-1, 1)]
    assert np.linalg.norm(plain[1] - plain[0]) * step > apart / 2  # had it not shrunk


@pytest.mark.parametrize("bits", [12, 24])
def test_the_server_averages_residues_that_wrap_around(bits):
    grid, std = Grid(bits, 5, 1.0), jnp.float32(0.4)
    vector = np.linspace(-0.02, 0.02, 999)
    sent = [noised(vector, std, grid, seed)[0] for seed in range(5)]
    total = sum(np.asarray(grids.residues(one, grid, std=std)) for one in sent)
    assert total.dtype == np.uint32 and total.max() >= 1 << bits
    found = grids.average(jnp.asarray(total), grid, std=std, count=jnp.int32(5))
    np.testing.assert_allclose(found, np.mean(np.stack(sent), 0), rtol=1e-6, atol=1e-7)


def test_an_upload_that_is_not_finite_stays_so():
    sent, length = noised([0.1, np.nan, 0.2], 0.3)
    assert np.all(np.isnan(sent)) and np.isnan(length)


@pytest.mark.parametrize("apart", [None, lambda held: 0.01 / held])
def test_a_grid_that_is_too_coarse_is_refused_with_the_bits_that_suffice(apart):
    def check(bits, std=0.1):
        grid = Grid(bits, 10, 1.0, apart=apart)
        grids.check_grid(grid, std=std, num_examples=1, size=10_000)

    with pytest.raises(ValueError, match=r"noise_bits must be [0-9]+ for") as refusal:
        check(8)
    least = int(str(refusal.value).split()[3])
    check(least)
    with pytest.raises(ValueError, match="noise_bits must be"):
        check(least - 1)
    with pytest.raises(ValueError, match="more than 24"):
        check(8, std=1e-9)


@pytest.mark.hole
def test_uploads_side_by_side_are_noised_in_one_call_to_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each was a call of the host, which took most of the time of a small upload."""
    calls, on_host = [], grids._on_host

    def counted(*arguments, **named):
        calls.append(len(arguments))
        return on_host(*arguments, **named)

    monkeypatch.setattr(grids, "_on_host", counted)
    keys = jax.random.split(jax.random.key(0), 5)
    vectors = jnp.arange(15, dtype=jnp.float32).reshape(5, 3) / 20
    upload = {"num_examples": 1}

    def noised(vector, key):
        return grids.add_discrete_noise(
            {"w": vector}, jnp.float32(0.5), PLAIN, key=key, **upload
        )

    together = jax.device_get(jax.vmap(noised)(vectors, keys))
    assert len(calls) == 1
    for number in range(5):
        alone = jax.device_get(noised(vectors[number], keys[number]))
        of_this = jax.tree.map(lambda leaf, n=number: leaf[n], together)
        jax.tree.map(np.testing.assert_array_equal, alone, of_this)
