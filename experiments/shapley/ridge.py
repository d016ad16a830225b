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
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.algorithm.coalitions import coalition_rows
from fedsvp_jax.data.dataset import Dataset

from .games import KINDS, MOST_EXAMPLES, blended, dealt

PLAYERS, WIDTH, TESTED, CHUNK = 16, 32, 100, 4096
HELD_OUT = {
    (f"{name}-ridge", s) for name in ("digits", "mnist", "adult") for s in (1, 2)
}


class Part(NamedTuple):
    """A game before its utilities are known.

    Attributes:
      kind: of `games.KINDS`.
      counts: (N,) training examples by attribute.
      squares: (N, w, w) X_a' X_a.
      products: (N, w, c) X_a' Y_a.
      tested: (v, w) the other examples.
      labels: (v,) theirs.
    """

    kind: str
    counts: np.ndarray
    squares: np.ndarray
    products: np.ndarray
    tested: np.ndarray
    labels: np.ndarray

    def outputs(self, coalitions: np.ndarray) -> np.ndarray:
        """(S, v, c) of the models of the coalitions (S, N)."""
        left = np.tensordot(coalitions, self.squares, 1)
        right = np.tensordot(coalitions, self.products, 1)
        return np.asarray(
            self.tested @ np.linalg.solve(left + np.eye(left.shape[-1]), right)
        )


def parts(data: Dataset, seed: int, players: int) -> Iterator[Part]:
    """One game of each kind."""
    features = data.train_inputs.reshape(len(data.train_labels), -1).astype(float)
    turn = np.random.default_rng(0).normal(size=(features.shape[1], WIDTH))
    for index, kind in enumerate(KINDS):
        draw = np.random.default_rng((seed, index))
        mine = draw.permutation(len(features))[: MOST_EXAMPLES + TESTED]
        x = features[mine] @ turn
        x = np.append((x - x.mean(0)) / x.std(0), np.ones((len(x), 1)), 1)
        labels = data.train_labels[mine]
        trained, tested = slice(MOST_EXAMPLES), slice(MOST_EXAMPLES, None)
        rows, attributes, wanted = dealt(
            kind, players, x[trained], labels[trained], (seed, index)
        )
        member, one_hot = (
            np.eye(number)[of]
            for number, of in ((players, attributes), (data.num_classes, wanted))
        )
        yield Part(
            kind,
            np.bincount(attributes, minlength=players),
            np.einsum("ea,ei,ej->aij", member, x[rows], x[rows]),
            np.einsum("ea,ei,ec->aic", member, x[rows], one_hot),
            x[tested],
            labels[tested],
        )


def games(data: Dataset, seed: int) -> Iterator[dict[str, Any]]:
    """One game of each kind, as recorded ones, with arrays for lists."""
    masks = coalition_rows(range(2**PLAYERS), PLAYERS)
    for game in parts(data, seed, PLAYERS):
        alone = game.outputs(np.append(np.eye(PLAYERS), np.ones((1, PLAYERS)), axis=0))
        worth, blend = [], []
        for part in np.split(masks, len(masks) // CHUNK):
            worth.append(worths(game.outputs(part * 1.0), game.labels))
            blend.append(worths(blended(alone, game.counts, part), game.labels))
        yield {
            "dataset": f"{data.name}-ridge",
            "seed": seed,
            "round": 0,
            "kind": game.kind,
            "players": PLAYERS,
            "counts": game.counts.tolist(),
            "validation": TESTED,
            "worth": _joined(worth),
            "blend": _joined(blend),
        }


def worths(outputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy, and minus the mean squared error, of each model's outputs (S, v, c)."""
    error = np.square(outputs - np.eye(outputs.shape[-1])[labels]).sum(-1).mean(-1)
    return (outputs.argmax(-1) == labels).mean(-1), -error


def _joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
    accuracy, loss = zip(*parts, strict=True)
    return {"accuracy": np.concatenate(accuracy), "loss": np.concatenate(loss)}
