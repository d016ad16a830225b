"""A federation in which curious clients attack: rounds, attacks, scores, files."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks import gan, reconstruction
from fedsvp_jax.attacks.classifier import BATCH
from fedsvp_jax.attacks.poisoning import Poison
from fedsvp_jax.attacks.reconstruction import AttackerState, AttackPlan, Holdings
from fedsvp_jax.attacks.scores import Examiner, Scores
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import prng
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.structs import Array, Model, Params, Split
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import partition, preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import build
from fedsvp_jax.models.batches import in_batches
from fedsvp_jax.round.state import ServerState
from fedsvp_jax.run import records
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.folder import RunFolder
from fedsvp_jax.run.trainer import Trainer

SCORES = "scores.jsonl"
_MOST_CLASSES = 10  # shown and scored at the end


@dataclasses.dataclass(frozen=True)
class Attack:
    """The attack's own settings.

    Attributes:
      mode: "passive", or "active" (`poisoning`).
      num_attackers: number of curious clients that attack, each on its own.
      steps: steps of generator and discriminator after every round.
      num_images: number of reconstructions and of real images that are compared.
    """

    mode: str
    num_attackers: int
    steps: int
    num_images: int


def check(config: ExperimentConfig, attack: Attack, dataset: Dataset) -> None:
    """Checks that the federation has curious clients and that its data are images.

    Raises:
      ValueError: a setting does not fit the attack; the message names it.
    """
    if config.attributes != "class" or config.num_attributes < 2:
        raise ValueError(
            "attributes must be class with num_attributes of at least 2, so that the "
            f"attacker lacks the private class; got {config.attributes} with "
            f"{config.num_attributes}"
        )
    if not 1 <= attack.num_attackers <= config.num_hbc_clients:
        raise ValueError(
            "num_attackers must be between 1 and num_hbc_clients = "
            f"{config.num_hbc_clients}, got {attack.num_attackers}"
        )
    gan.check_image_shape(dataset.example_shape)
    if dataset.train_inputs.dtype != np.uint8:
        raise ValueError(
            f"dataset {config.dataset} must hold uint8 pixels for this attack, got "
            f"{dataset.train_inputs.dtype}"
        )


def shown_classes(config: ExperimentConfig, dataset: Dataset) -> list[int]:
    """The private class, then the others in order, at most ten in all."""
    private = config.private_attribute
    other_labels = [label for label in range(dataset.num_classes) if label != private]
    return [private, *other_labels][:_MOST_CLASSES]


def attacker_ids(config: ExperimentConfig, attack: Attack) -> np.ndarray:
    """(A,) int32: the ids of the attackers, the first of the curious clients."""
    curious = partition.hbc_clients(config.num_clients, config.num_hbc_clients)
    return curious[: attack.num_attackers]


def victims_images(
    dataset: Dataset, split: Split, attackers: np.ndarray, label: int
) -> Array:
    """(n, height, width, channels): images of a class that other clients train on.

    Raises:
      ValueError: there are fewer than 3.
    """
    rows, counts = np.asarray(split.train), np.asarray(split.num_train)
    mask = np.arange(rows.shape[1]) < counts[:, None]
    mask[attackers] = False
    indices = np.unique(rows[mask])
    indices = indices[dataset.train_labels[indices] == label]
    if len(indices) < 3:
        raise ValueError(
            f"num_clients or class_share is too small: the clients that do not attack "
            f"hold {len(indices)} examples of class {label}, and a score needs 3"
        )
    return preprocessing.normalize(jnp.asarray(dataset.train_inputs[indices]))


class CuriousClients:
    """One federation and its attackers.

    Args:
      config: resolved settings; the mechanism is the defence.
      attack: settings of the attack.
      dataset: the federation's images.
      model: of another federation with the same network, so that the attack uses again
        what was compiled for it; None takes this one's. The federation itself builds
        its model by name, or its noise would be that of a model of one's own.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        attack: Attack,
        dataset: Dataset,
        *,
        model: Model | None = None,
    ) -> None:
        self.config, self.attack = config, attack
        self.trainer = Trainer(build([config], dataset))
        self.model = model or self.trainer.program.model
        self.plan = AttackPlan(
            image_shape=dataset.example_shape,
            num_classes=dataset.num_classes,
            target=config.private_attribute,
            steps=attack.steps,
        )
        ids = attacker_ids(config, attack)
        self._ids = jnp.asarray(ids)
        self._nobody = config.num_clients + 1  # for draws of no client
        self._root = prng.root_key(config.seed)
        split = cell_of(self.trainer.program.data.split, 0)
        self._holdings = Holdings(split.train[self._ids], split.num_train[self._ids])
        self._poison: Poison | None = None
        if attack.mode == "active":
            decoy = (self.plan.target + 1) % self.plan.num_classes
            self._poison = Poison(self.trainer, ids, decoy, self._make)

    def _make(
        self, generators: Params, key: Array, count: int, label: int | None = None
    ) -> Array:
        """Images of a class (the private one) by every attacker, (A, count, ...)."""
        class_label = jnp.int32(self.plan.target if label is None else label)
        return reconstruction.reconstruct(
            self.plan, generators, self._ids, class_label, key, count
        )

    def reconstructions(self, state: AttackerState, label: int) -> Array:
        """(A, num_images, *image_shape), from the same latents in every call."""
        key = prng.stream_key(self._root, prng.Stream.ATTACKER, self._nobody)
        return self._make(state.generator, key, self.attack.num_images, label)

    def initial_state(self) -> dict[str, Any]:
        """The states of the server and of the attackers before round 0."""
        attackers = reconstruction.init_attackers(self.plan, self._root, self._ids)
        return {"server": self.trainer.initial_state(), "attackers": attackers}

    def advance(
        self, state: dict[str, Any], round_num: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """One round of the federation, then the attack on the model after it.

        Returns:
          `(state, row)`; the row holds the results of the round, among them the
          attackers' losses (A,).

        Raises:
          FloatingPointError: the federation diverged.
        """
        attackers = state["attackers"]
        examples = None
        if self._poison is not None:
            key = prng.round_key(self._root, round_num)
            poison_key = prng.stream_key(key, prng.Stream.ATTACKER, self._nobody)
            examples = self._poison.examples(attackers.generator, poison_key)
        server, metrics = self.trainer.advance(
            state["server"], round_num, 1, examples=examples
        )
        round_metrics = cell_of(metrics, (0, 0))
        records.check_finite(
            round_metrics, round_num=round_num + 1, mechanism=self.config.mechanism
        )
        attackers, losses = reconstruction.attack_round(
            self.plan,
            self.model,
            *_broadcast(server),
            self.trainer.program.data.examples.inputs,
            self._holdings,
            attackers,
            root=self._root,
            attackers=self._ids,
            round_num=jnp.int32(round_num),
        )
        row = {
            "test_accuracy": round_metrics.test_accuracy,
            **jax.device_get(losses)._asdict(),
        }
        return {"server": server, "attackers": attackers}, row

    def believed(self, state: dict[str, Any], images: Array, label: int) -> float:
        """The share of the images that the attacked model classifies as `label`."""
        logits_of = partial(_logits, self.model, *_broadcast(state["server"]))
        logits = np.concatenate(list(in_batches(logits_of, images, BATCH)))
        return float(np.mean(logits.argmax(axis=1) == label))


def _broadcast(server: ServerState) -> tuple[Params, Params]:
    """The global model's `(params, stats)`, as host arrays.

    Arrays on the trainer's mesh would place the attack's results there too, and the
    attack of the next round would be compiled again for that placement.
    """
    return jax.device_get((cell_of(server.params, 0), cell_of(server.stats, 0)))


@partial(jax.jit, static_argnums=0)
def _logits(model: Model, params: Params, stats: Params, images: Array) -> Array:
    return model.apply(params, stats, images, train=False, key=None)[0]


def run_mechanism(
    clients: CuriousClients,
    examiner: Examiner,
    classes: list[int],
    folder: RunFolder,
) -> tuple[dict[str, Any], dict[int, Array]]:
    """Runs all rounds under one mechanism; an interrupted run is continued.

    The lines of scores.jsonl are written before the checkpoint that counts them.

    Args:
      clients: the federation and its attackers.
      examiner: scores the reconstructions.
      classes: classes that are reconstructed after the last round.
      folder: holds scores.jsonl and the checkpoints.

    Returns:
      `(summary, images)`: for each class the final scores, means over the attackers,
      and the first attacker's images.
    """
    config, target = clients.config, clients.plan.target
    place = folder.path / "checkpoints" / config.mechanism
    checkpointer = Checkpointer(place, folder.identity)
    state = clients.initial_state()
    done = 0
    if (saved := checkpointer.restore(state)) is not None:
        (restored, done) = saved
        state = restored | {"server": clients.trainer.place(restored["server"])}
    folder.keep_rounds(
        SCORES, done, where=lambda row: row["mechanism"] == config.mechanism
    )
    bar = progress_bar(
        range(done, config.num_rounds),
        initial=done,
        total=config.num_rounds,
        unit="round",
        desc=config.mechanism,
        disable=None,
    )
    for round_num in bar:
        state, row = clients.advance(state, round_num)
        images = clients.reconstructions(state["attackers"], target)
        scores = [examiner.score(batch, target) for batch in images]
        rows = _rows(clients, state, images, scores, row, round_num + 1)
        folder.append(SCORES, rows)
        bar.set_postfix(
            accuracy=f"{float(row['test_accuracy']):.3f}",
            recognised=f"{np.mean([s.recognised for s in scores]):.2f}",
            distance=f"{np.mean([s.frechet_distance for s in scores]):.1f}",
        )
        checkpointer.save(round_num + 1, state)
    return _final(clients, examiner, state["attackers"], classes, folder)


def _rows(
    clients: CuriousClients,
    state: dict[str, Any],
    images: Array,
    scores: list[Scores],
    row: dict[str, Any],
    round_num: int,
) -> list[dict[str, Any]]:
    """The lines of one round, one per attacker."""
    losses = ("discriminator", "realism", "disagreement")
    return [
        {
            "mechanism": clients.config.mechanism,
            "round": round_num,
            "attacker": int(client),
            "test_accuracy": row["test_accuracy"],
            **scores[place]._asdict(),
            "believed": clients.believed(state, images[place], clients.plan.target),
            **{f"{name}_loss": row[name][place] for name in losses},
        }
        for place, client in enumerate(attacker_ids(clients.config, clients.attack))
    ]


def _final(
    clients: CuriousClients,
    examiner: Examiner,
    attackers: AttackerState,
    classes: list[int],
    folder: RunFolder,
) -> tuple[dict[str, Any], dict[int, Array]]:
    pictures: dict[int, Array] = {}
    rows: list[dict[str, Any]] = []
    for label in classes:
        images = clients.reconstructions(attackers, label)
        pictures[label] = images[0]
        by_attacker = [examiner.score(batch, label) for batch in images]
        row: dict[str, Any] = {"class": label, "private": label == clients.plan.target}
        for name in Scores._fields:
            each = np.asarray([getattr(scores, name) for scores in by_attacker])
            row |= {name: float(each.mean()), f"{name}_std": float(each.std())}
        rows.append(row)
    mechanism = clients.config.mechanism
    seen = [row for row in folder.rows(SCORES) if row["mechanism"] == mechanism]
    summary = {
        "mechanism": mechanism,
        "test_accuracy": seen[-1]["test_accuracy"],
        "classes": rows,
    }
    return summary, pictures
