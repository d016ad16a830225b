"""Games of sixteen attributes whose 2^16 models are solved, not trained.

A client's 200 examples are dealt to 16 attributes as in `games`; a coalition's model
is the ridge regression of one-hot labels on its examples,

    W_S = (sum over a in S of X_a' X_a + I)^-1 sum over a in S of X_a' Y_a

with X the features on 32 fixed random directions, standardised, and a constant. Worth
is the accuracy on 100 other examples, or, as `loss`, minus the mean squared error. The
blend mixes the outputs of single attributes and of all, as for trained models. Tables
of 2^16 are not kept: data set, seed and kind make them again.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedsvp_jax.algorithm.coalitions import coalition_rows
from fedsvp_jax.data.dataset import Dataset

from .games import KINDS, MOST_EXAMPLES, blended, dealt

PLAYERS, WIDTH, TESTED, CHUNK = 16, 32, 100, 4096
HELD_OUT = {
    (f"{name}-ridge", s) for name in ("digits", "mnist", "adult") for s in (1, 2)
}


def games(data: Dataset, seed: int) -> Iterator[dict[str, Any]]:
    """One game of each kind, as recorded ones, with arrays for lists."""
    features = data.train_inputs.reshape(len(data.train_labels), -1).astype(float)
    turn = np.random.default_rng(0).normal(size=(features.shape[1], WIDTH))
    masks = coalition_rows(range(2**PLAYERS), PLAYERS)
    for index, kind in enumerate(KINDS):
        draw = np.random.default_rng((seed, index))
        mine = draw.permutation(len(features))[: MOST_EXAMPLES + TESTED]
        x = features[mine] @ turn
        x = np.append((x - x.mean(0)) / x.std(0), np.ones((len(x), 1)), 1)
        labels = data.train_labels[mine]
        trained, tested = slice(MOST_EXAMPLES), slice(MOST_EXAMPLES, None)
        rows, attributes, wanted = dealt(
            kind, PLAYERS, x[trained], labels[trained], (seed, index)
        )
        one_hot = np.eye(data.num_classes)[wanted]
        member = np.eye(PLAYERS)[attributes]
        squares = np.einsum("ea,ei,ej->aij", member, x[rows], x[rows])
        products = np.einsum("ea,ei,ec->aic", member, x[rows], one_hot)
        counts = np.bincount(attributes, minlength=PLAYERS)

        def outputs(
            coalitions: np.ndarray, told: Any = (squares, products, x[tested])
        ) -> np.ndarray:
            left, right = (np.tensordot(coalitions, part, 1) for part in told[:2])
            solved = np.linalg.solve(left + np.eye(WIDTH + 1), right)
            return np.asarray(told[2] @ solved)

        alone = outputs(np.append(np.eye(PLAYERS), np.ones((1, PLAYERS)), axis=0))
        worth, blend = [], []
        for part in np.split(masks, len(masks) // CHUNK):
            worth.append(_worths(outputs(part * 1.0), labels[tested]))
            blend.append(_worths(blended(alone, counts, part), labels[tested]))
        yield {
            "dataset": f"{data.name}-ridge",
            "seed": seed,
            "round": 0,
            "kind": kind,
            "players": PLAYERS,
            "counts": counts.tolist(),
            "validation": TESTED,
            "worth": _joined(worth),
            "blend": _joined(blend),
        }


def _worths(outputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy, and minus the mean squared error, of each model's outputs (S, v, c)."""
    error = np.square(outputs - np.eye(outputs.shape[-1])[labels]).sum(-1).mean(-1)
    return (outputs.argmax(-1) == labels).mean(-1), -error


def _joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
    accuracy, loss = zip(*parts, strict=True)
    return {"accuracy": np.concatenate(accuracy), "loss": np.concatenate(loss)}
