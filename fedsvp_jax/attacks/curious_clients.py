"""A federation in which curious clients attack: rounds, attacks and scores."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks import gan, reconstruction
from fedsvp_jax.attacks.poisoning import Poison
from fedsvp_jax.attacks.reconstruction import AttackPlan, Holdings
from fedsvp_jax.attacks.scores import Examiner, Scores
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import prng
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.structs import Array, Model, Params, Split
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import partition, preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.run import records
from fedsvp_jax.run.trainer import Trainer

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


def attacked_federation(
    trainer: Trainer,
    config: ExperimentConfig,
    attack: Attack,
    dataset: Dataset,
    model: Model,
    examiner: Examiner,
) -> dict[str, Any]:
    """All rounds under one mechanism, each followed by the attack on its model.

    Args:
      trainer: of the one federation of `config`; the active attack changes its cells.
      config: resolved settings; the mechanism is the defence.
      attack: settings of the attack.
      dataset: the federation's images.
      model: the federation's network. Federations that share it share what is compiled
        for the attack.
      examiner: scores the reconstructions.

    Returns:
      `rounds`: a row per round and attacker; `classes`: the final scores by class,
      means over the attackers; `pictures`: by class the first attacker's images, in
      [-1, 1]; `test_accuracy`.

    Raises:
      FloatingPointError: the federation diverged.
    """
    plan = AttackPlan(
        image_shape=dataset.example_shape,
        num_classes=dataset.num_classes,
        target=config.private_attribute,
        steps=attack.steps,
    )
    root, ids = prng.root_key(config.seed), jnp.asarray(attacker_ids(config, attack))
    nobody = config.num_clients + 1  # for draws of no client
    split = cell_of(trainer.program.data.split, 0)
    holdings = Holdings(split.train[ids], split.num_train[ids])

    def images_of(
        generators: Params, key: Array, count: int, label: int = plan.target
    ) -> Array:
        """Images of a class by every attacker, (A, count, *image_shape)."""
        return reconstruction.reconstruct(
            plan, generators, ids, jnp.int32(label), key, count
        )

    def reconstructed(generators: Params, label: int) -> tuple[Array, list[Scores]]:
        """Every attacker's images, from the same latents each time; their scores."""
        key = prng.stream_key(root, prng.Stream.ATTACKER, nobody)
        images = images_of(generators, key, attack.num_images, label)
        return images, [examiner.score(batch, label) for batch in images]

    poison = None
    if attack.mode == "active":
        decoy = (plan.target + 1) % plan.num_classes
        poison = Poison(trainer, np.asarray(ids), decoy, images_of)
    server = trainer.initial_state()
    attackers = reconstruction.init_attackers(plan, root, ids)
    rounds: list[dict[str, Any]] = []
    every, name = range(config.num_rounds), config.mechanism
    bar = progress_bar(every, name, unit="round", disable=None)
    for round_num in bar:
        examples = None
        if poison is not None:
            key = prng.round_key(root, round_num)
            poison_key = prng.stream_key(key, prng.Stream.ATTACKER, nobody)
            examples = poison.examples(attackers.generator, poison_key)
        server, metrics = trainer.advance(server, round_num, 1, examples=examples)
        round_metrics = cell_of(metrics, (0, 0))
        records.check_finite(
            round_metrics, round_num=round_num + 1, mechanism=config.mechanism
        )
        # As host arrays: on the trainer's mesh they would place the attack's results
        # there too, and the next attack would be compiled again for that placement.
        params, stats = jax.device_get(
            (cell_of(server.params, 0), cell_of(server.stats, 0))
        )
        attackers, losses = reconstruction.attack_round(
            plan,
            model,
            params,
            stats,
            trainer.program.data.examples.inputs,
            holdings,
            attackers,
            root=root,
            attackers=ids,
            round_num=jnp.int32(round_num),
        )
        _, scores = reconstructed(attackers.generator, plan.target)
        losses = jax.device_get(losses)._asdict()
        rounds += [
            {
                "round": round_num + 1,
                "attacker": int(ids[place]),
                "test_accuracy": round_metrics.test_accuracy,
                **scores[place]._asdict(),
                **{f"{name}_loss": losses[name][place] for name in losses},
            }
            for place in range(attack.num_attackers)
        ]
    classes, pictures = [], {}
    for label in shown_classes(config, dataset):
        images, scores = reconstructed(attackers.generator, label)
        pictures[label] = np.asarray(images[0])
        row: dict[str, Any] = {"class": label, "private": label == plan.target}
        for name, values in zip(Scores._fields, np.transpose(scores), strict=True):
            row |= {name: float(values.mean()), f"{name}_std": float(values.std())}
        classes.append(row)
    return {
        "test_accuracy": rounds[-1]["test_accuracy"],
        "classes": classes,
        "rounds": rounds,
        "pictures": pictures,
    }
