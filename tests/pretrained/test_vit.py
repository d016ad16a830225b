"""The Vision Transformer."""

import jax
import jax.numpy as jnp
import pytest

from fedsvp_jax import models


@pytest.mark.parametrize(
    ("shape", "patches"), [((8, 8, 1), 16), ((28, 28, 1), 49), ((32, 32, 3), 64)]
)
def test_patches_suit_small_images(shape, patches):
    params, stats = jax.eval_shape(
        models.make_model("vit", num_classes=10).init,
        jax.random.key(0),
        jnp.zeros((1, *shape), jnp.float32),
    )
    assert params["position_embeddings"].shape == (1, patches + 1, 64)
    assert params["classifier"]["kernel"].shape == (10, 64)
    assert not stats


def test_lanes_of_a_vit_compile_to_products_without_convolutions():
    model = models.make_model("vit", num_classes=10)
    x = jax.ShapeDtypeStruct((2, 8, 8, 1), jnp.float32)
    key = jax.eval_shape(lambda: jax.random.key(0))
    params, _ = jax.eval_shape(model.init, key, x)
    lanes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((3, *leaf.shape), leaf.dtype), params
    )

    def gradient(params, x):
        return jax.grad(
            lambda p: jnp.sum(model.apply(p, {}, x, train=True, key=None)[0])
        )(params)

    lowered = jax.jit(jax.vmap(gradient, in_axes=(0, None))).lower(lanes, x)
    assert "convolution" not in lowered.as_text()
    assert "dot_general" in lowered.as_text()


def test_examples_that_are_no_images_are_refused():
    model = models.make_model("vit", num_classes=2)
    with pytest.raises(ValueError, match=r"vit takes images, got .* shape \(14,\)"):
        model.init(jax.random.key(0), jnp.zeros((1, 14), jnp.float32))
