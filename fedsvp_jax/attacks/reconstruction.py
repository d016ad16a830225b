"""Reconstruction by an honest-but-curious client: a GAN guided by the global model.

The attacker takes part in the federation, holds no image of the private class and sees
every global model. Between two rounds it trains

    D: to tell its own images from G(z, y)
    G: to maximise  log D(G(z, y)) + log p(y | t(G(z, y)))

where p is the current global model, frozen. It has the role of an ACGAN's auxiliary
classifier (Odena et al. 2017), which the victims train for the attacker. Half of the
labels y are the private class. t moves the image by up to a pixel or two and adds
noise, since an image that a model classifies as a 5 at one position need not look like
a 5. The attack follows Hitaj et al. 2017 (arXiv 1702.07464). FedSVA, sec. 4.2, names it
without details, so this is a reconstruction.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import (
    Array,
    Model,
    Params,
    Split,
    Weights,
    cross_entropy,
)
from fedsvp_jax.data import preprocessing

from .adam import updated
from .gan import LATENT_SIZE, Discriminator, Generator

_BATCH_SIZE = 32  # real images per step, and as many generated ones
_NOISE_STD = 0.3  # of the noise that t adds to pixels in [-1, 1]
_ADAM = optax.adam(2e-4, b1=0.5, b2=0.999)


class AttackPlan(NamedTuple):
    """The attack's static settings, fixed when it is compiled.

    Attributes:
      image_shape: (height, width, channels).
      num_classes: classes of the global model.
      target: the private class, which no attacker holds.
      steps: steps of G and D per round.
    """

    image_shape: tuple[int, ...]
    num_classes: int
    target: int
    steps: int

    def generator(self) -> Any:
        """G (of type Any, since mypy infers a union for what a module returns)."""
        return Generator(self.image_shape, self.num_classes)


class AttackerState(NamedTuple):
    """The attackers' networks; every leaf has a leading axis (A,)."""

    generator: Params
    discriminator: Params
    moments: optax.OptState  # of both


def init_attackers(plan: AttackPlan, root: Array, attackers: Array) -> AttackerState:
    """New networks; each attacker's are drawn from its own key.

    Args:
      plan: gives the shapes.
      root: the run's root key.
      attackers: (A,) int32 client ids.
    """

    def init_attacker(client: Array) -> AttackerState:
        keys = jax.random.split(prng.stream_key(root, prng.Stream.ATTACKER, client))
        latents = jnp.zeros((1, LATENT_SIZE), jnp.float32)
        labels = jnp.zeros((1,), jnp.int32)
        generator = plan.generator().init(keys[0], latents, labels)
        image = jnp.zeros((1, *plan.image_shape), jnp.float32)
        discriminator = Discriminator().init(keys[1], image)
        moments = _ADAM.init((generator, discriminator))
        return AttackerState(generator, discriminator, moments)

    return jax.lax.map(init_attacker, attackers)


@partial(jax.jit, static_argnames=("plan", "model"))
def attack_round(
    plan: AttackPlan,
    model: Model,
    weights: Weights,
    inputs: Array,
    split: Split,
    state: AttackerState,
    *,
    root: Array,
    attackers: Array,
    round_num: Array,
) -> AttackerState:
    """Trains every attacker for one round against the current global model.

    Args:
      plan: the static settings.
      model: the federation's model.
      weights: of the global model, which is not changed.
      inputs: (n, *image_shape) uint8, all images of the federation.
      split: which of them the attackers hold, leaves (A, ...).
      state: the attackers' networks before the round.
      root: the run's root key.
      attackers: (A,) int32 client ids.
      round_num: () int32, from 0.
    """
    key = prng.round_key(root, round_num)
    generator = plan.generator()
    judge: Any = Discriminator()

    def train_attacker(
        state: AttackerState, client: Array, rows: Array, count: Array
    ) -> AttackerState:
        attacker_key = prng.stream_key(key, prng.Stream.ATTACKER, client)

        def step(index: Array, state: AttackerState) -> AttackerState:
            draw, label, latent, transform_key = jax.random.split(
                jax.random.fold_in(attacker_key, index), 4
            )
            chosen = jax.random.randint(draw, (_BATCH_SIZE,), 0, count)
            real = preprocessing.normalize(inputs[rows[chosen]])
            any_class = jax.random.randint(label, (_BATCH_SIZE,), 0, plan.num_classes)
            labels = any_class.at[: _BATCH_SIZE // 2].set(plan.target)
            latents = jax.random.normal(latent, (_BATCH_SIZE, LATENT_SIZE))

            generated, pull = jax.vjp(
                lambda params: generator.apply(params, latents, labels), state.generator
            )

            def discriminator_loss(params: Params) -> Array:
                truth = judge.apply(params, real)
                lie = judge.apply(params, generated)
                missed = jnp.mean(jax.nn.softplus(-truth))
                return missed + jnp.mean(jax.nn.softplus(lie))

            def generator_loss(images: Array) -> Array:
                realism = jnp.mean(
                    jax.nn.softplus(-judge.apply(state.discriminator, images))
                )
                shifted = _transformed(images, transform_key)
                logits, _ = model.apply(*weights, shifted, train=False, key=None)
                return realism + jnp.mean(cross_entropy(logits, labels))

            gradients = (
                *pull(jax.grad(generator_loss)(generated)),
                jax.grad(discriminator_loss)(state.discriminator),
            )
            networks = state.generator, state.discriminator
            networks, moments = updated(_ADAM, gradients, state.moments, networks)
            return AttackerState(networks[0], networks[1], moments)

        return jax.lax.fori_loop(0, plan.steps, step, state)

    return jax.vmap(train_attacker)(state, attackers, split.train, split.num_train)


@partial(jax.jit, static_argnames=("plan", "count"))
def reconstruct(
    plan: AttackPlan, generators: Params, attackers: Array, key: Array, count: int
) -> Array:
    """(A, count, *image_shape) in [-1, 1]: every attacker's images of the target.

    Args:
      plan: gives the shapes.
      generators: the generators' parameters, with a leading axis (A,).
      attackers: (A,) int32 client ids.
      key: draws the latents, together with the attacker's id.
      count: images per attacker.
    """

    def generate(generator: Params, client: Array) -> Array:
        latent_key = jax.random.fold_in(key, client)
        latents = jax.random.normal(latent_key, (count, LATENT_SIZE))
        labels = jnp.full(count, plan.target, jnp.int32)
        return plan.generator().apply(generator, latents, labels)

    return jax.vmap(generate)(generators, attackers)


def _transformed(images: Array, key: Array) -> Array:
    """t: moves each image by a random step, repeats its edge pixels and adds noise.

    A step is at most a 14th of the image's height, each way.
    """
    moving, noising = jax.random.split(key)
    count, height, width, depth = images.shape
    shift = max(1, height // 14)
    margins = ((0, 0), (shift, shift), (shift, shift), (0, 0))
    padded = jnp.pad(images, margins, mode="edge")
    starts = jax.random.randint(moving, (count, 2), 0, 2 * shift + 1)

    def cut(image: Array, start: Array) -> Array:
        corner = (start[0], start[1], jnp.int32(0))
        return jax.lax.dynamic_slice(image, corner, (height, width, depth))

    shifted = jax.vmap(cut)(padded, starts)
    return shifted + _NOISE_STD * jax.random.normal(noising, images.shape)
