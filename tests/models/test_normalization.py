"""GroupNorm against Flax's own."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from layer_checks import assert_close, normal

from fedsvp_jax.models.normalization import GroupNorm


def test_group_norm_equals_flax_forward_and_in_every_gradient():
    x = 2.0 * normal(0, 3, 4, 5, 64) + 1.0
    variables = {"params": {"scale": 1.0 + normal(1, 64) / 4, "bias": normal(2, 64)}}
    results = []
    for layer in (GroupNorm(), nn.GroupNorm(num_groups=32, epsilon=1e-5)):

        def loss(variables, x, layer=layer):
            y = layer.apply(variables, x)
            return jnp.sum(jnp.sin(y)), y

        step = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
        (_, y), gradients = step(variables, x)
        results.append(jax.tree.leaves((y, gradients)))
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs, scale=5.0)


def test_group_norm_of_bfloat16_takes_its_statistics_in_float32():
    """The variance is 1 beside a mean square of 401; in bfloat16 it would be lost."""
    x = (normal(0, 3, 8, 8, 64) + 20.0).astype(jnp.bfloat16)
    layer = GroupNorm()
    variables = layer.init(jax.random.key(0), x)
    y = layer.apply(variables, x)
    assert y.dtype == jnp.bfloat16
    exact = layer.apply(variables, x.astype(jnp.float32))
    assert_close(y.astype(jnp.float32), exact, scale=1e4)


def test_group_norm_names_a_channel_count_that_does_not_divide():
    with pytest.raises(ValueError, match="multiple of 32 groups, got 48"):
        GroupNorm().init(jax.random.key(0), normal(0, 1, 2, 2, 48))
