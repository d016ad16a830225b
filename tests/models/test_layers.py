"""The dense layer, and the convolution, ReLU and pooling that are made as one."""

import jax
import jax.numpy as jnp
import numpy as np
from layer_checks import assert_close, normal, window_pool

from fedsvp_jax.models import layers
from fedsvp_jax.models.kernels import conv2d


def test_conv_relu_pool_equals_pooling_after_bias_and_relu_to_the_bit():
    x = normal(0, 2, 8, 8, 3)
    layer = layers.ConvReluPool(4, (3, 3), kernels="cpu")
    variables = layer.init(jax.random.key(1), x)

    def plain(variables, x):
        params = variables["params"]
        y = conv2d(x, params["Conv_0"]["kernel"], kernels="cpu")
        return window_pool(jax.nn.relu(y + params["bias"][None, None, None]))

    np.testing.assert_array_equal(layer.apply(variables, x), plain(variables, x))
    ours, theirs = (
        jax.jit(jax.grad(lambda v, f=f: jnp.sum(jnp.sin(f(v, x)))))(variables)
        for f in (layer.apply, plain)
    )
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert_close(a, b, scale=10.0)
