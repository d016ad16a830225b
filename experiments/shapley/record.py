"""Records games of clients: every coalition of attributes trained once, as a table.

  python -m experiments.shapley.record --dataset=digits --seed=0 \\
      --output=docs/results/shapley/digits.jsonl

A federation is trained by FedAvg to each of --rounds. Then one client for every kind
and number of players plays: its training examples (at most 200) are dealt to N
attributes as the kind says, all 2^N coalitions are trained from the broadcast model
with one key, and are tested on its validation examples. Kinds:

  equal      shares of one size
  dirichlet  random shares, Dirichlet(.5)
  rare       one attribute has 2 % of the examples
  duplicate  the last attribute is a copy of the one before it
  harmful    the last attribute's labels are random
  grouped    examples of an attribute are alike: by class, or by the first feature

Each line of the file is one game: `counts` (N,) training examples by attribute, and for
accuracy and for loss the utilities `worth` of all coalitions by bitmask, and `blend`,
the utilities of the blended models (docs/appendix/estimators.md), which only the
trainings of single attributes and of all are needed for. HELD_OUT says which games
chose nothing.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax.algorithm.coalitions import coalition_rows
from fedsvp_jax.algorithm.evaluation import outputs_for
from fedsvp_jax.algorithm.local_training import Draws, local_update
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build, loading
from fedsvp_jax.structs import Array, Examples, Rows, Weights
from fedsvp_jax.tree import cell_of

from .. import command, kept_rows, provenance

KINDS = ("equal", "dirichlet", "rare", "duplicate", "harmful", "grouped")
# Fixed before any game was recorded: seed 0 of digits and MNIST may choose kernels,
# hyperparameters and rules; seeds 1 and 2, and all of adult, only judge.
DEVELOPMENT = {("digits", 0), ("mnist", 0)}
HELD_OUT = {
    *((name, seed) for name in ("digits", "mnist") for seed in (1, 2)),
    *(("adult", seed) for seed in (1, 2)),
}
MOST_EXAMPLES = 200
_SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {"num_clients": 10, "train_fraction": 0.7, "num_hbc_clients": 0},
    "mnist": {"num_clients": 100, "batch_size": 10},
    "adult": {"num_clients": 100, "batch_size": 10, "train_fraction": 0.7},
}


def config_of(dataset: str, seed: int, rounds: int, data_dir: Any) -> ExperimentConfig:
    """FedAvg with small networks; every client's examples are alike."""
    return resolve(
        ExperimentConfig(
            dataset=dataset,
            data_dir=data_dir,
            model="mlp",
            mechanism="none",
            partition="iid",
            seed=seed,
            num_rounds=rounds,
            local_epochs=5,
            **_SETTINGS[dataset],
        )
    )


def dealt(
    kind: str, number: int, features: np.ndarray, labels: np.ndarray, seed: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, attributes, labels) of a game on a client's examples, shuffled."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(labels))
    shares = np.ones(number)
    if kind == "dirichlet":
        shares = draw.dirichlet(np.full(number, 0.5))
    elif kind == "rare":
        shares[0] = 0.02 * (number - 1) / 0.98
    elif kind == "grouped":
        by = features.reshape(len(labels), -1)[:, 0]
        order = order[np.argsort(by[order], kind="stable")]
        if len(np.unique(labels)) >= number:
            order = order[np.argsort(labels[order], kind="stable")]
    playing = number - (kind == "duplicate")
    counts = 1 + np.floor(
        (len(order) - playing) * shares[:playing] / shares[:playing].sum()
    ).astype(int)
    rows = order[: counts.sum()]
    attributes = np.repeat(np.arange(playing), counts)
    wanted = labels[rows].copy()
    if kind == "duplicate":
        copied = attributes == playing - 1
        rows = np.concatenate([rows, rows[copied]])
        wanted = np.concatenate([wanted, wanted[copied]])
        attributes = np.append(attributes, np.full(copied.sum(), playing))
    if kind == "harmful":
        mine = attributes == number - 1
        wanted[mine] = draw.integers(0, labels.max() + 1, mine.sum())
    return rows, attributes, wanted


def blended(
    logits: np.ndarray, counts: np.ndarray, coalitions: np.ndarray
) -> np.ndarray:
    """(S, v, c): the blend of the logits of single attributes and of all."""
    members = coalitions * counts
    size = np.maximum(members.sum(1), 1)
    within = (size**2 - (members**2).sum(1)) / (counts.sum() ** 2 - (counts**2).sum())
    alone = np.tensordot(members / size[:, None], logits[:-1], 1)
    q = within[:, None, None]
    return np.asarray((1 - q) * alone + q * logits[-1])


def worths(logits: np.ndarray, labels: np.ndarray) -> dict[str, list[float]]:
    """Accuracy, and ln c - cross-entropy, of each model's logits."""
    top = logits - logits.max(-1, keepdims=True)
    log_p = top - np.log(np.exp(top).sum(-1, keepdims=True))
    right = np.take_along_axis(log_p, labels[None, :, None], -1)[..., 0].mean(-1)
    hits = (logits.argmax(-1) == labels).mean(-1)
    loss = np.log(logits.shape[-1]) + right
    found = {"accuracy": hits, "loss": loss}
    return {name: np.round(x, 5).tolist() for name, x in found.items()}


def record(
    program: Program,
    train: Callable[..., Array],
    start: Weights,
    client: int,
    kind: str,
    number: int,
    seed: Any,
) -> dict[str, Any]:
    """One game of one client.

    Args:
      train: of `training`.
      start: the broadcast model.
      seed: of the deal and of the key that all trainings share.
    """
    stored, held = program.data.examples, cell_of(program.data.split, 0)
    held = jax.device_get(cell_of(held, client))
    mine = held.train[: min(int(held.num_train), MOST_EXAMPLES)]
    tested = held.validation[: int(held.num_validation)]
    inputs, labels = np.asarray(stored.inputs), np.asarray(stored.labels)
    rows, attributes, wanted = dealt(kind, number, inputs[mine], labels[mine], seed)
    # Of one shape for all games, so that one program serves them.
    padded = np.arange(2 * MOST_EXAMPLES) % len(rows)
    examples = Examples(
        inputs[mine][rows][padded],
        jnp.asarray(wanted[padded], jnp.int32),
        jnp.zeros(len(padded), jnp.int32),
    )
    masks = coalition_rows(range(2**number), number)
    counted = np.arange(len(padded)) < len(rows)
    members = masks[:, attributes[padded]] & counted
    key = jax.random.key(np.random.SeedSequence(seed).generate_state(1)[0])
    chunks = members.reshape(-1, 32, len(padded))
    logits = np.concatenate(
        [np.asarray(train(start, examples, one, key, inputs[tested])) for one in chunks]
    )
    counts = np.bincount(attributes, minlength=number)
    known = [1 << a for a in range(number)] + [2**number - 1]
    blend = blended(logits[known], counts, masks)
    blend[0] = logits[0]
    return {
        "client": client,
        "kind": kind,
        "players": number,
        "counts": counts.tolist(),
        "validation": len(tested),
        "worth": worths(logits, labels[tested]),
        "blend": worths(blend, labels[tested]),
    }


def training(program: Program) -> Callable[..., Array]:
    """Compiled: the logits (S, v, c) of the models of S coalitions' members (S, m)."""
    recipe, rates = program.plan.recipe, cell_of(program.cells, 0).rates

    @jax.jit
    def logits(
        start: Weights, examples: Examples, members: Array, key: Array, tested: Array
    ) -> Array:
        indices = jnp.arange(members.shape[1], dtype=jnp.int32)

        def one(member: Array) -> Array:
            rows = Rows(examples, indices, member)
            trained = local_update(
                program.model, recipe, rates, start, rows, Draws(key)
            )
            return outputs_for(program.model, *trained, tested)

        return jax.vmap(one)(members)

    return logits


def main(_: list[str]) -> None:
    """Records the games of one data set and seed."""
    values = flags.FLAGS
    name, seed = values.dataset, values.seed
    rounds = sorted(map(int, values.rounds))
    config = config_of(name, seed, rounds[-1], values.data_dir)
    data = loading.load_dataset(config)
    trainer = Trainer(build([config], data))
    train = training(trainer.program)
    state, done, turn = trainer.initial_state(), 0, 0
    stamp = provenance.stamp(data, seed)
    for number in rounds:
        while done < number:
            state = trainer.advance(state, done, 1)[0]
            done += 1
        start = cell_of(Weights(state.params, state.stats), 0)
        for players in map(int, values.players):
            for kind in KINDS:
                game = record(
                    trainer.program,
                    train,
                    start,
                    turn % config.num_clients,
                    kind,
                    players,
                    (seed, number, players, KINDS.index(kind)),
                )
                turn += 1
                row = {"dataset": name, "seed": seed, "round": number, **game}
                kept_rows.add(pathlib.Path(values.output), row | {"provenance": stamp})
                print(name, seed, number, players, kind, flush=True)


if __name__ == "__main__":
    flags.DEFINE_enum("dataset", "digits", list(_SETTINGS), "Data set.")
    flags.DEFINE_integer("seed", 0, "Of the federation and the games.")
    flags.DEFINE_list("rounds", ["0", "4"], "Rounds of FedAvg before the games.")
    flags.DEFINE_list("players", ["5", "8"], "Numbers of attributes N.")
    flags.DEFINE_string("data_dir", None, "Folder of the data set.")
    flags.DEFINE_string(
        "output", None, "File that the games are added to.", required=True
    )
    command.run(main, __doc__)
