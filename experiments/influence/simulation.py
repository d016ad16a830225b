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
from fedsvp_jax.pretrained import load_hugging_face
from fedsvp_jax.structs import Array, Examples, Model, Params, Weights

from .participants import draw_participants

TRAINED_HERE = ("warmup", "random")  # backbones that each run makes for itself
_HUGGING_FACE = "hf:"


class Simulation(NamedTuple):
    """One run's participants; M participants, C classes."""

    inputs: FilterInputs
    corrupted: np.ndarray  # (M,) bool
    class_counts: np.ndarray  # (M, C): labels of the batches, before the corruption


def hugging_face_network(checkpoint: str, example: Array) -> FrozenNetwork:
    """A Vision Transformer of Hugging Face's, which takes normalised images.

    Args:
      checkpoint: as `load_hugging_face` takes it.
      example: one batch of normalised images.

    Raises:
      FileNotFoundError, ValueError: it cannot be loaded, or takes no such images.
    """
    module, params, preprocess = load_hugging_face(checkpoint)
    vit = models.from_linen(module.clone(num_classes=0))

    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> tuple[Array, Params]:
        images = preprocess(x / 2 + 0.5)
        return vit.apply(params, stats, images, train=train, key=key)

    jax.eval_shape(preprocess, example)
    return FrozenNetwork(Model(vit.init, apply), params, {})


class Simulator:
    """Makes the simulations of one data set and one choice of backbone.

    Args:
      config: resolved settings.
      data: its training and test images are used alike.
      choice: the flag --backbone: warmup, random, or hf: and the name or folder of a
        Vision Transformer.

    Attributes:
      pretrained: the network that all runs share; None for warmup and random.
      backbone: what config.json says of the backbone.

    Raises:
      FileNotFoundError, ValueError: the backbone cannot be loaded, or does not fit the
        data set or the model.
    """

    pretrained: FrozenNetwork | None
    backbone: str | dict[str, str]

    def __init__(self, config: ExperimentConfig, data: Dataset, choice: str) -> None:
        self._config = config
        self._inputs = np.concatenate([data.train_inputs, data.test_inputs])
        self._labels = np.concatenate([data.train_labels, data.test_labels])
        self._num_classes = data.num_classes
        self._example = preprocessing.normalize(jnp.asarray(self._inputs[:1]))
        self.pretrained, self.backbone = None, choice
        if choice not in TRAINED_HERE and not choice.startswith(_HUGGING_FACE):
            known = ", ".join(TRAINED_HERE)
            raise ValueError(f"backbone must be {known} or hf:NAME, got {choice!r}")
        if choice.startswith(_HUGGING_FACE):
            checkpoint = choice.removeprefix(_HUGGING_FACE)
            self.pretrained = hugging_face_network(checkpoint, self._example)
            self.backbone = {"model": "vit", "hugging_face": checkpoint}
            return
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
        """The pretrained network, or the run's: as it starts, or warmed up."""
        if self.pretrained is not None:
            return self.pretrained
        config = self._config
        params, stats = self._model.init(
            prng.stream_key(root, prng.Stream.INIT), self._example
        )
        if self.backbone != "random":
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
