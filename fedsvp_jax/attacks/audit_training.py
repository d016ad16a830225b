"""Audit games with real local training, on a loss that is linear in the weights.

The loss lets a record move the first weight as far as the clip allows, so that worlds
which differ in one record are as far apart as any. `audit` defines a game.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    Model,
    Number,
    Params,
    Rows,
    Weights,
    iota,
)
from fedsvp_jax.core.tree import cell_of, stack
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.config import PrivateQuerySettings
from fedsvp_jax.round import client_work, private_query
from fedsvp_jax.round.local_training import TrainingRates, TrainingRecipe

from .audit import Player, Transcript, make_player

_OFFSET = 1e6  # makes the loss linear: the records are far in the wrong class


def pushed_model() -> Model:
    """A model with a linear loss: gradient descent moves the weights w along each x.

    A record x of class 0 has the logits (w·x - 1e6, 0). Their cross-entropy is
    1e6 - w·x to the last bit, so that the gradient is -x.
    """

    def init(key: Array, example: Array) -> tuple[Params, Params]:
        return {"w": jnp.zeros(2, jnp.float32)}, {}

    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> tuple[Array, Params]:
        first = x @ params["w"] - jnp.float32(_OFFSET)
        return jnp.stack([first, jnp.zeros_like(first)], axis=-1), stats

    return Model(init, apply)


def neighbours(
    num_examples: int,
    replaced: int,
    push: float,
    *,
    left_out: bool = False,
    others_push: bool = True,
) -> list[Examples]:
    """The data of the worlds (in, out), which differ in `replaced` records.

    In world "in" these records push the first weight of `pushed_model` up. In world
    "out" they push it down, and all other records have no gradient in both worlds.
    Where they are left out they have none in world "out", and all others push the
    weight down in both worlds: a divisor that followed the records would show them.

    Args:
      num_examples: |D|.
      replaced: number of records that differ.
      push: L2 norm of a record that pushes.
      left_out: whether the records are left out, not replaced.
      others_push: false where the others must not hide who is in a secret batch.
    """
    worlds = []
    for sign in (1.0, 0.0 if left_out else -1.0):
        inputs = np.zeros((num_examples, 2), np.float32)
        inputs[:, 0] = -push if left_out and others_push else 0.0
        inputs[:replaced, 0] = sign * push
        nobody = jnp.zeros(num_examples, jnp.int32)
        worlds.append(Examples(jnp.asarray(inputs), nobody, nobody))
    return worlds


def trained_update(
    recipe: TrainingRecipe,
    rates: TrainingRates,
    data: Examples,
    *,
    key: Array,
    client_id: Array | int = 0,
    mask: Array | bool = True,
) -> Array:
    """() float32: how far local training on `data` moves the first weight in a round.

    Args:
      recipe, rates: of the local training.
      data: the client's examples.
      key: of the round.
      client_id: whose.
      mask: (n,) bool: the examples that are trained on.
    """
    model = pushed_model()
    start = Weights(*model.init(key, data.inputs[:1]))
    every = iota(len(data.labels))
    rows = Rows(data, every, jnp.broadcast_to(mask, every.shape))
    at = prng.Address(key, client_id)
    return client_work.train(model, recipe, rates, start, rows, at).params["w"][0]


def trained_updates(
    recipe: TrainingRecipe,
    rates: TrainingRates,
    num_examples: int,
    replaced: int,
    *,
    key: Array,
) -> tuple[float, float]:
    """`trained_update` in the worlds (in, out), with records longer than the clip."""
    push = 2.0 * recipe.batch_size * float(rates.l2_norm_clip)
    worlds = neighbours(num_examples, replaced, push)
    update_of = jax.jit(partial(trained_update, recipe, rates, key=key))
    inside, outside = map(float, map(update_of, worlds))
    return inside, outside


def private_record_updates(
    recipe: TrainingRecipe,
    rates: TrainingRates,
    query: PrivateQuerySettings,
    *,
    num_public: int,
    num_private: int,
    left_out: bool,
    key: Array,
) -> tuple[float, float]:
    """The first weight's change in a round of `attribute_records`, un-noised.

    It is the change by public training less the private query's answer. The
    worlds (in, out) differ in one record of the private attribute, whose gradient is
    longer than the clip: replaced by its opposite, or without a gradient.

    Args:
      recipe, rates: of the public training.
      query: the private query's settings.
      num_public, num_private: |O| and |P|.
      left_out: whether the record has no gradient in world "out".
      key: of the round.
    """
    count = num_public + num_private
    push = 2.0 * max(recipe.batch_size * float(rates.l2_norm_clip), query.private_clip)
    worlds = neighbours(count, 1, push, left_out=left_out)
    is_private = jnp.arange(count) < num_private
    model = pushed_model()

    def update_of(data: Examples) -> Array:
        data = dataclasses.replace(data, attributes=is_private.astype(jnp.int32))
        public, private = private_query.divided(
            data.attributes, jnp.int32(count), private_attribute=1
        )
        (answer,) = private_query.mean_clipped_gradient(
            model,
            Weights(*model.init(key, data.inputs[:1])),
            Rows(data, iota(count), private),
            l2_norm_clip=query.private_clip,
            query_parts=(True,),
            lane_axes=(),
        )
        return trained_update(recipe, rates, data, key=key, mask=public) - answer[0]

    inside, outside = map(float, map(jax.jit(update_of), worlds))
    return inside, outside


def blind_log_ratio(
    seen: Array, *, shift: Number, std: Array, rate: float, steps: int
) -> Array:
    """ln of the likelihood of an upload with a record over that without, () float32.

    The adversary does not know how many of an upload's k Poisson batches hold the
    record, so it weighs all numbers j by their chance:

        ln Σ_j C(k, j) q^j (1 - q)^(k - j) e^(ℓ_j), ℓ_j = j a x/s² - (j a)²/(2 s²)

    For one step that is ln(1 - q + q e^ℓ).

    Args:
      seen: () x, the upload's number that the record moves.
      shift: a, by how much one batch with the record moves it.
      std: () s, of the upload's noise.
      rate: q.
      steps: k.
    """
    from scipy import stats

    number = np.arange(steps + 1)
    chances = jnp.asarray(stats.binom.logpmf(number, steps, rate), jnp.float32)
    shifts = jnp.asarray(number * shift, jnp.float32)
    logs = (shifts * seen - 0.5 * jnp.square(shifts)) / jnp.square(std)
    return jax.scipy.special.logsumexp(chances + logs)


def training_player(
    mechanism: Mechanism,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    worlds: list[Examples],
    num_rounds: int,
    num_games: int,
    *,
    num_others: int = 0,
    rows_per_person: int | None = None,
) -> Player:
    """Plays games of uploads with noise in the local steps.

    An upload is the sum of its steps (`per_example`). The score is the first weight of
    the uploads less the middle of what the two worlds' uploads are without noise,
    summed over the rounds. It increases with the likelihood ratio and has its zero,
    since the noise has the same variance in both worlds. The middle is that of the very
    batches that were drawn: the adversary knows them, unless they are Poisson samples,
    which are secret. Then the score is `blind_log_ratio`, summed over the rounds.

    Args:
      mechanism: adds its noise in the local steps.
      recipe, rates: of the local training, without noise.
      worlds: the data of the worlds (in, out), as `neighbours` makes them.
      num_rounds: T.
      num_games: n, in each world.
      num_others: clients without a gradient, whose noise is in the sum that is seen.
      rows_per_person: m, of one person whose the first m records are; None: each record
        is of a person of its own.
    """
    first, size = mechanism.init(1).of(0), len(worlds[0].labels)
    if rows_per_person is not None:
        persons = jnp.maximum(jnp.arange(size) - (rows_per_person - 1), 0)
        worlds = [dataclasses.replace(world, persons=persons) for world in worlds]
    stacked = stack(worlds)
    shifted = jnp.bool_(recipe.places is None)  # else the worlds are mixtures

    def transcript(world: Array, key: Array) -> Transcript:
        data = cell_of(stacked, world)

        def step(score: Array, round_num: Array) -> tuple[Array, Transcript]:
            round_key = prng.round_key(key, round_num)
            noised_rates = client_work.with_step_noise(
                rates, mechanism, ratio=jnp.float32(1.0), round_num=round_num
            )
            update = trained_update(recipe, noised_rates, data, key=round_key)
            noised, _, info = client_work.add_noise(
                mechanism,
                update[None],
                first,
                num_examples=jnp.int32(size),
                ratio=jnp.float32(1.0),
                params=jnp.zeros(1),
                at=prng.Address(round_key, 0, round_num),
            )
            seen = noised[0]
            if num_others:
                silent = dataclasses.replace(data, inputs=jnp.zeros_like(data.inputs))

                def noise_of(client_id: Array) -> Array:
                    return trained_update(
                        recipe, noised_rates, silent, key=round_key, client_id=client_id
                    )

                seen += jnp.sum(jax.vmap(noise_of)(1 + iota(num_others)))
            if recipe.places is None:
                silent_rates = partial(trained_update, recipe, rates, key=round_key)
                score = score + seen - jnp.mean(jax.vmap(silent_rates)(stacked))
            else:
                steps = recipe.local_steps or recipe.local_epochs
                step_std = rates.learning_rate * noised_rates.step_noise_std
                score += blind_log_ratio(
                    seen,
                    shift=(rows_per_person or 1)
                    * rates.learning_rate
                    * rates.l2_norm_clip
                    / recipe.batch_size,
                    std=step_std * (steps * (1 + num_others)) ** 0.5,
                    rate=min(1.0, recipe.batch_size / size),
                    steps=steps,
                )
            return score, Transcript(score, jnp.bool_(True), shifted, info)

        return jax.lax.scan(step, jnp.float32(0.0), iota(num_rounds))[1]

    return make_player(transcript, num_games)
