"""The dense layer, and the convolution, ReLU and pooling that are made as one."""

import jax
import jax.numpy as jnp
import numpy as np
from layer_checks import assert_close, normal, window_pool

from fedsvp_jax.models import layers, products
from fedsvp_jax.models.kernels import conv2d


def test_dense_gradients_equal_the_plain_products_and_keep_apart_by_lane():
    x, kernel = normal(0, 3, 5, 7), normal(1, 3, 4, 7)

    def gradients(product):
        return jax.vmap(jax.grad(lambda x, k: jnp.sum(jnp.sin(product(x, k))), (0, 1)))(
            x, kernel
        )

    for ours, theirs in zip(
        gradients(products.matmul), gradients(lambda x, k: x @ k.T), strict=True
    ):
        assert_close(ours, theirs, scale=5.0)


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
