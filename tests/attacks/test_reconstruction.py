"""The reconstruction attack in parts: networks, training, scores."""

import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import digits, small

from fedsvp_jax.attacks import curious_clients, gan, reconstruction, scores
from fedsvp_jax.attacks.reconstruction import AttackerState, AttackPlan
from fedsvp_jax.attacks.scores import make_examiner
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Model, Split, Weights
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation import build
from fedsvp_jax.run.trainer import Trainer

# Two images teach D to name every made one, so the model has to be sure of its opinion.
PLAN = AttackPlan((8, 8, 1), 3, target=2, steps=25)
ROOT = prng.root_key(0)
ATTACKERS = jnp.asarray([4, 7], jnp.int32)
OTHERS = jnp.asarray([7, 9], jnp.int32)
# Left half bright, right half bright, top bright: what classes 0, 1 and 2 show.
SHAPES = np.full((3, 8, 8, 1), -1, np.float32)
SHAPES[0, :, :4] = SHAPES[1, :, 4:] = SHAPES[2, :4] = 1
MODEL = Model(
    lambda key, example: ({}, {}),
    lambda params, stats, x, **_: (4 * jnp.einsum("nhwc,khwc->nk", x, SHAPES), stats),
)


def attack(attackers: jax.Array, rounds: int) -> AttackerState:
    """Attackers who hold classes 0 and 1 of a federation of three images."""
    count = len(attackers)
    rows = jnp.tile(jnp.asarray([[0, 1, 2]], jnp.int32), (count, 1))
    nothing = jnp.zeros((count,), jnp.int32)
    split = Split(rows, jnp.full((count,), 2, jnp.int32), rows, nothing)
    inputs = jnp.asarray((SHAPES + 1) * 127.5, jnp.uint8)
    state = reconstruction.init_attackers(PLAN, ROOT, attackers)
    for round_num in range(rounds):
        state = reconstruction.attack_round(
            PLAN,
            MODEL,
            Weights({}, {}),
            inputs,
            split,
            state,
            root=ROOT,
            attackers=attackers,
            round_num=jnp.int32(round_num),
        )
    return state


def examples(shape: tuple[int, ...], dtype: Any) -> Any:
    """What is asked of a data set whose examples are such images."""
    return types.SimpleNamespace(
        example_shape=shape, train_inputs=np.zeros((1, *shape), dtype)
    )


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (32, 32, 3)])
def test_the_networks_take_the_papers_image_sizes(shape: tuple[int, ...]) -> None:
    gan.check_images(examples(shape, np.uint8))
    made, _ = jax.eval_shape(
        lambda key: gan.Generator(shape, 10).init_with_output(
            key, jnp.zeros((5, gan.LATENT_SIZE)), jnp.zeros((5,), jnp.int32)
        ),
        ROOT,
    )
    judged, _ = jax.eval_shape(
        lambda key: gan.Discriminator().init_with_output(key, jnp.zeros((5, *shape))),
        ROOT,
    )
    assert made.shape == (5, *shape)
    assert judged.shape == (5, {8: 16, 28: 49, 32: 64}[shape[0]])
    with pytest.raises(ValueError, match="widths that 4 divides"):
        gan.check_images(examples((shape[0], 30, 1), np.uint8))
    with pytest.raises(ValueError, match="got float32 examples"):
        gan.check_images(examples(shape, np.float32))


@pytest.mark.slow
def test_the_generator_learns_what_the_model_calls_the_private_class() -> None:
    """The shape of class 2 is nowhere among the attackers' images."""
    state = attack(ATTACKERS, rounds=40)
    images = reconstruction.reconstruct(PLAN, state.generator, ATTACKERS, ROOT, 20)
    assert images.shape == (2, 20, 8, 8, 1) and float(jnp.abs(images).max()) <= 1
    logits, _ = MODEL.apply({}, {}, images.reshape(-1, 8, 8, 1))
    assert np.mean(np.argmax(logits, axis=1) == 2) > 0.8


@pytest.mark.slow
def test_an_attacker_does_not_depend_on_the_lanes_beside_it() -> None:
    first, second = (attack(one, rounds=1) for one in (ATTACKERS, OTHERS))
    for one, two in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(one[1], two[0], atol=1e-3)
    kernel = first.generator["params"]["Dense_0"]["kernel"]
    assert np.abs(kernel[0] - kernel[1]).max() > 1e-2


def test_curious_clients_hold_no_private_image_and_the_examiner_no_attackers() -> None:
    config = small(num_hbc_clients=2)
    trainer = Trainer(build([config], digits()))
    split = jax.tree.map(lambda leaf: leaf[0], trainer.program.data.split)
    ids = curious_clients.attacker_ids(config, 2, digits())
    assert ids.tolist() == [5, 6]
    for client in ids:
        rows = split.train[client, : split.num_train[client]]
        assert 5 not in digits().train_labels[rows]
    found = curious_clients.victims_images(digits(), split, ids, 5)
    held = {
        int(row)
        for client in range(5)
        for row in split.train[client, : split.num_train[client]]
    }
    assert len(found) == sum(digits().train_labels[sorted(held)] == 5)


@pytest.mark.parametrize(
    ("changed", "attackers", "message"),
    [
        ({"num_attributes": 1}, 1, "attributes must be class"),
        ({"num_hbc_clients": 0}, 1, "num_attackers must be at most"),
        ({}, 2, "num_attackers must be at most"),
    ],
)
def test_a_federation_without_such_an_attacker_is_refused(
    changed: dict[str, Any], attackers: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        curious_clients.attacker_ids(small(**changed), attackers, digits())


@pytest.mark.slow
def test_the_classifier_learns_and_the_scores_tell_real_from_noise() -> None:
    data = digits()
    judge = scores.train_classifier(data, seed=0, steps=120)
    test = preprocessing.normalize(jnp.asarray(data.test_inputs))
    assert np.mean(judge(test)[1] == data.test_labels) > 0.9
    train = preprocessing.normalize(jnp.asarray(data.train_inputs))
    fives = train[np.flatnonzero(data.train_labels == 5)]
    features, _ = judge(fives)
    assert features.shape == (len(fives), scores.FEATURE_SIZE)
    score = make_examiner(judge, fives, 5, 60)
    held_out = score(test[np.flatnonzero(data.test_labels == 5)])
    copies = score(fives[:30])
    others = score(test[np.flatnonzero(data.test_labels == 8)])
    noise = score(jax.random.uniform(ROOT, (40, 8, 8, 1), minval=-1.0))
    assert held_out.recognised > 0.85 > 0.15 > others.recognised
    assert held_out.frechet_distance < noise.frechet_distance / 4
    assert copies.nearest_distance < 1e-6 < held_out.nearest_distance
    assert held_out.nearest_distance < noise.nearest_distance
