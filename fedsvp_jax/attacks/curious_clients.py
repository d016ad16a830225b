"""A federation in which curious clients attack: rounds, attacks and scores."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import prng, progress
from fedsvp_jax.core.structs import Array, Split
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import partition, preprocessing, train_validation
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.run import records
from fedsvp_jax.run.trainer import Trainer

from . import gan, reconstruction
from .scores import Examiner, Scores


def attacker_ids(config: ResolvedConfig, count: int, dataset: Dataset) -> np.ndarray:
    """(count,) int32: the ids of the attackers, the first of the curious clients.

    Raises:
      ValueError: a setting or the data do not fit the attack; the message names it.
    """
    if config.attributes != "class" or config.num_attributes < 2:
        raise ValueError(
            "attributes must be class with num_attributes of at least 2, so that the "
            f"attacker lacks the private class; got {config.attributes} with "
            f"{config.num_attributes}"
        )
    if count > config.num_hbc_clients:
        raise ValueError(
            "num_attackers must be at most num_hbc_clients = "
            f"{config.num_hbc_clients}, got {count}"
        )
    gan.check_images(dataset)
    return partition.hbc_clients(config.num_clients, config.num_hbc_clients)[:count]


def victims_images(
    dataset: Dataset, split: Split, attackers: np.ndarray, label: int
) -> Array:
    """(n, height, width, channels): images of a class that other clients train on.

    Raises:
      ValueError: there are fewer than 3.
    """
    clients, rows = train_validation.dealt(split.train, split.num_train)
    indices = np.unique(rows[~np.isin(clients, attackers)])
    indices = indices[dataset.train_labels[indices] == label]
    if len(indices) < 3:
        raise ValueError(
            f"num_clients or class_share is too small: the clients that do not attack "
            f"hold {len(indices)} examples of class {label}, and a score needs 3"
        )
    return preprocessing.normalize(jnp.asarray(dataset.train_inputs[indices]))


def attacked_federation(
    trainer: Trainer,
    config: ResolvedConfig,
    plan: reconstruction.AttackPlan,
    attackers: np.ndarray,
    examiner: Examiner,
    num_images: int,
) -> dict[str, Any]:
    """All rounds under one mechanism, each followed by the attack on its model.

    Args:
      trainer: of the one federation of `config`.
      config: resolved settings; the mechanism is the defence.
      plan: settings of the attack.
      attackers: (A,) ids of the clients that attack, each on its own.
      examiner: scores the reconstructions of the private class.
      num_images: reconstructions of each attacker.

    Returns:
      `test_accuracy` of the last round; the scores of its reconstructions, means and
      stds over the attackers; `attackers`: id -> its scores; `pictures`: the first
      attacker's images, in [-1, 1].

    Raises:
      FloatingPointError: the federation diverged.
    """
    root, ids = prng.root_key(config.seed), jnp.asarray(attackers)
    # The latents of every score are drawn by a key of no client.
    latent_key = prng.stream_key(root, prng.Stream.ATTACKER, config.num_clients + 1)
    split = cell_of(trainer.program.data.split, 0)
    server = trainer.initial_state()
    state = reconstruction.init_attackers(plan, root, ids)
    every, name = range(config.num_rounds), config.mechanism
    for round_num in progress.progress_bar(every, name, unit="round", disable=None):
        server, metrics = trainer.advance(server, round_num, 1)
        round_metrics = cell_of(metrics, (0, 0))
        records.check_finite(round_metrics, round_num=round_num + 1, mechanism=name)
        # As host arrays: on the trainer's mesh they would place the attack's results
        # there too, and the next attack would be compiled again for that placement.
        weights = jax.device_get(cell_of(server.weights, 0))
        state = reconstruction.attack_round(
            plan,
            trainer.program.model,
            weights,
            trainer.program.data.examples.inputs,
            cell_of(split, ids),
            state,
            root=root,
            attackers=ids,
            round_num=jnp.int32(round_num),
        )
    images = reconstruction.reconstruct(
        plan, state.generator, ids, latent_key, num_images
    )
    scores = [*map(examiner, images)]
    by_score = dict(zip(Scores._fields, np.transpose(scores), strict=True))
    return {
        "test_accuracy": round_metrics.test_accuracy,
        **{name: values.mean() for name, values in by_score.items()},
        **{f"{name}_std": values.std() for name, values in by_score.items()},
        "attackers": {
            str(client): score._asdict()
            for client, score in zip(attackers, scores, strict=True)
        },
        "pictures": np.asarray(images[0]),
    }
