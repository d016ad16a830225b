"""Simulations of the filter alone: participants, corruption, and what it computes with.

A simulation draws its participants' examples from all images of a data set. It has no
federation, no rounds and no test set.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import models, prng
from fedsvp_jax.algorithm.local_training import TrainingRecipe
from fedsvp_jax.attacks import corruption
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.influence import Batches, last_layer, pipeline
from fedsvp_jax.influence.last_layer import FrozenNetwork
from fedsvp_jax.influence.pipeline import FilterInputs
from fedsvp_jax.models.last_layer import backbone_of
from fedsvp_jax.structs import Array, Examples, Model, Weights

from .participants import draw_participants


class Simulation(NamedTuple):
    """One run's participants; M participants, C classes."""

    inputs: FilterInputs
    corrupted: np.ndarray  # (M,) bool
    class_counts: np.ndarray  # (M, C): labels of the batches, before the corruption


class Simulator:
    """Makes the simulations of one data set and one choice of backbone.

    Args:
      config: resolved settings.
      data: its training and test images are used alike.
      backbone: the flag --backbone, warmup or random.
    """

    def __init__(self, config: ExperimentConfig, data: Dataset, backbone: str) -> None:
        self._config = config
        self._inputs = np.concatenate([data.train_inputs, data.test_inputs])
        self._labels = np.concatenate([data.train_labels, data.test_labels])
        self._num_classes = data.num_classes
        self._example = preprocessing.normalize(jnp.asarray(self._inputs[:1]))
        self._warms_up = backbone == "warmup"
        self._model = self._build(data.num_classes)
        self._backbone = backbone_of(self._build, self._example)

    def simulation(self, num_participants: int, run: int) -> Simulation:
        """The simulation number `run`; its seed is the experiment's seed plus `run`."""
        config = self._config
        seed = config.seed + run
        root = prng.root_key(seed)
        indices = draw_participants(
            self._labels,
            num_participants,
            num_warmup=config.warmup_examples,
            num_train=config.contributor_examples,
            num_test=config.tester_examples,
            partition=config.partition,
            alpha=config.dirichlet_alpha,
            seed=seed,
        )
        corrupted = corruption.corrupted_participants(
            root, num_participants, config.corrupted_share
        )
        warmup = preprocessing.device_examples(
            self._inputs[indices.warmup], self._labels[indices.warmup]
        )
        inputs = pipeline.filter_inputs(
            self._network(warmup, root),
            warmup,
            self._corrupted(indices.train, np.flatnonzero(corrupted), root),
            self._clean(indices.test),
            config,
            num_classes=self._num_classes,
        )
        one_hot = np.eye(self._num_classes, dtype=np.int64)
        counts = one_hot[self._labels[indices.train]].sum(1)
        return Simulation(inputs, corrupted, counts)

    def _build(self, num_classes: int) -> Model:
        return models.make_model(self._config.model, num_classes=num_classes)

    def _clean(self, indices: np.ndarray) -> Batches:
        return Batches(
            jnp.asarray(self._inputs[indices]),
            jnp.asarray(self._labels[indices]),
            jnp.ones(indices.shape),
        )

    def _corrupted(
        self, indices: np.ndarray, corrupted: np.ndarray, root: Array
    ) -> Batches:
        """The contributors' batches; `corrupted` holds participants' numbers."""
        config, clean = self._config, self._clean(indices)
        if not len(corrupted):
            return clean
        corrupt = partial(
            corruption.corrupt,
            count=indices.shape[1],
            kind=config.corruption,
            num_classes=self._num_classes,
            share=config.corrupted_points,
        )
        keys = [
            prng.stream_key(root, prng.Stream.CORRUPTION, int(i)) for i in corrupted
        ]
        changed = jax.vmap(lambda x, y, key: corrupt(x, y, key=key))(
            clean.x[corrupted], clean.labels[corrupted], jnp.stack(keys)
        )
        inputs = clean.x
        if config.corruption in corruption.IMAGE_CORRUPTIONS:
            inputs = inputs.at[corrupted].set(changed.inputs)
        labels = clean.labels.at[corrupted].set(changed.labels)
        return Batches(inputs, labels, clean.weights)

    def _network(self, warmup: Examples, root: Array) -> FrozenNetwork:
        """The run's network: as it starts, or warmed up."""
        config = self._config
        params, stats = self._model.init(
            prng.stream_key(root, prng.Stream.INIT), self._example
        )
        if self._warms_up:
            recipe = TrainingRecipe(config.batch_size, config.backbone_epochs, "mean")
            params, stats = pipeline.warm_up(
                self._model,
                recipe,
                Weights(params, stats),
                warmup,
                config.learning_rate,
                prng.stream_key(root, prng.Stream.INFLUENCE),
            )
        return last_layer.freeze(self._backbone, params, stats)
