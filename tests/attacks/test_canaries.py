"""Canaries push the model along their own directions, the honest clients as they do."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedsvp_jax.attacks import canaries
from fedsvp_jax.data import sources


def gradient(model, params, example: np.ndarray, label: int) -> np.ndarray:
    def loss(params):
        logits, _ = model.apply(
            params, {}, jnp.asarray(example)[None], train=True, key=None
        )
        return optax.softmax_cross_entropy_with_integer_labels(
            logits, jnp.asarray([label])
        )[0]

    return np.asarray(jax.grad(loss)(params)["w"])


def test_a_canary_pushes_along_its_direction_and_nothing_else_does():
    drawn = canaries.draw_canaries(3, 50, seed=0)
    np.testing.assert_allclose(np.linalg.norm(drawn.directions, axis=1), 1, rtol=1e-5)
    model = canaries.canary_model(drawn.directions, 4, 2)
    params, _ = model.init(jax.random.key(0), jnp.zeros((1, 6)))
    params = {"w": params["w"] + 0.3}
    for number, sign in ((1, 5.0), (3, -5.0)):
        record = np.asarray([0, 0, 0, 0, number, sign], np.float32)
        np.testing.assert_allclose(
            gradient(model, params, record, 0),
            -sign * drawn.directions[number - 1],
            rtol=1e-5,
        )
    honest = gradient(model, params, np.asarray([1, 2, 3, 4, 0, 0], np.float32), 1)
    assert np.all(honest[8:] == 0) and np.any(honest[:8] != 0)
    empty = gradient(model, params, np.zeros(6, np.float32), 0)
    np.testing.assert_array_equal(empty, 0)


def test_a_client_that_is_out_holds_empty_records():
    drawn = canaries.draw_canaries(20, 640, seed=1)
    digits = sources.load("digits")
    made = canaries.plant_clients(digits, drawn, num_honest=2, push=3.0, records=4)
    inputs, writers = made.dataset.train_inputs, made.dataset.train_writers
    for canary, is_in in enumerate(drawn.coins):
        rows = inputs[writers == canary]
        assert rows.shape == (4, 66)
        np.testing.assert_array_equal(rows[:, -2], canary + 1 if is_in else 0)
        np.testing.assert_array_equal(rows[:, :-2], 0)
    assert set(writers.tolist()) == set(range(22))
    honest = inputs[writers >= 20]
    np.testing.assert_array_equal(honest[:, -2:], 0)
    assert len(honest) == len(digits.train_labels)


def test_a_record_pushes_forth_or_back():
    drawn = canaries.draw_canaries(20, 640, seed=1)
    made = canaries.plant_records(sources.load("digits"), drawn, push=3.0)
    numbers, signs = made.dataset.train_inputs[:20, -2:].T
    np.testing.assert_array_equal(numbers, np.arange(1, 21))
    np.testing.assert_array_equal(signs, np.where(drawn.coins, 3.0, -3.0))
    kind = made.dataset.columns["record"]
    assert kind.categories == ("honest", "canary")
    np.testing.assert_array_equal(kind.codes, np.arange(len(kind.codes)) < 20)
    left_out = canaries.plant_records(
        sources.load("digits"), drawn, push=3.0, left_out=True
    )
    signs = left_out.dataset.train_inputs[:20, -1]
    np.testing.assert_array_equal(signs, np.where(drawn.coins, 3.0, 0.0))
