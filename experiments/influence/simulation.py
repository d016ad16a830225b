"""One simulation's participants, up to the features that the filter works on."""

import pathlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import influence, models, prng
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.influence import Batches, backbone, centre, last_layer
from fedsvp_jax.structs import Array, Model, Params

BACKBONES = ("warmup", "random")  # or a file, or hf: and a ViT of Hugging Face's
_HUGGING_FACE = "hf:"
_FEATURE_BATCH = 250


class Frozen(NamedTuple):
    """A network whose logits are the features, trained elsewhere."""

    model: Model
    params: Params
    stats: Params
    about: dict[str, str]


def frozen_vit(checkpoint: str, example: Array) -> Frozen:
    """Hugging Face's ViT, fed with what its preprocessing makes of normalised images.

    Raises:
      FileNotFoundError, ValueError: it cannot be loaded, or takes no such images.
    """
    module, params, preprocessing = models.load_hugging_face(checkpoint)
    vit = models.from_linen(module.clone(num_classes=0))

    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> tuple[Array, Params]:
        images = preprocessing(x / 2 + 0.5)
        return vit.apply(params, stats, images, train=train, key=key)

    jax.eval_shape(preprocessing, example)
    about = {"model": "vit", "hugging_face": checkpoint}
    return Frozen(Model(vit.init, apply), params, {}, about)


class World(NamedTuple):
    """What one run of the filter starts from; M participants."""

    kernel: Array  # (C, d) W_0
    train: Batches
    test: Batches
    warmup: Batches  # the centre's own, M = 1
    corrupted: np.ndarray  # (M,) bool
    class_counts: np.ndarray  # (M, C): labels of the batches, before the corruption


class Pool:
    """All images of a data set; the filter needs no test set."""

    def __init__(self, config: ExperimentConfig, data: Dataset, choice: str) -> None:
        self.config = config
        self.inputs = np.concatenate([data.train_inputs, data.test_inputs])
        self.labels = np.concatenate([data.train_labels, data.test_labels])
        self.num_classes = data.num_classes
        self._choice = choice
        example = preprocessing.normalize(jnp.asarray(self.inputs[:1]))
        self._example = example
        self._frozen: Frozen | None = None
        if choice.startswith(_HUGGING_FACE):
            self._frozen = frozen_vit(choice.removeprefix(_HUGGING_FACE), example)
        else:
            self._model = self.build(data.num_classes)
            self._backbone = last_layer.backbone_of(self.build, example)
            if choice not in BACKBONES:
                self._frozen = self._from_file(pathlib.Path(choice).expanduser())
        self.about = self._frozen.about if self._frozen else choice

    def _from_file(self, path: pathlib.Path) -> Frozen:
        params, stats, about = backbone.load(path, self.build, self._example)
        cut = last_layer.frozen_params(self._backbone, params)
        return Frozen(self._backbone.model, cut, stats, about)

    def build(self, num_classes: int) -> Model:
        """The model that the settings name."""
        return models.make_model(self.config.model, num_classes=num_classes)

    def world(self, num_participants: int, run: int) -> World:
        """Run number `run`'s participants; everything in it follows from its seed."""
        config = self.config
        seed = config.seed + run
        root = prng.root_key(seed)
        who = influence.draw_participants(
            self.labels,
            num_participants,
            num_warmup=config.warmup_examples,
            num_train=config.contributor_examples,
            num_test=config.tester_examples,
            partition=config.partition,
            alpha=config.dirichlet_alpha,
            seed=seed,
        )
        bad = influence.corrupted_participants(
            root, num_participants, config.corrupted_share
        )
        inputs, labels = self._corrupted(who.train, np.flatnonzero(bad), root)
        raw = self._features(who.warmup, root)
        own = jnp.asarray(self.labels[who.warmup])
        sent = centre.fit_last_layer(
            raw(jnp.asarray(self.inputs[who.warmup])),
            own,
            num_classes=self.num_classes,
            num_epochs=config.warmup_epochs,
            learning_rate=config.influence_learning_rate,
        )

        def batches(inputs: Array, labels: Array) -> Batches:
            x = last_layer.scaled(
                sent.scaling, raw(inputs.reshape(-1, *inputs.shape[2:]))
            )
            return Batches(x.reshape(*labels.shape, -1), labels, jnp.ones(labels.shape))

        one_hot = np.eye(self.num_classes, dtype=np.int64)
        return World(
            kernel=sent.kernel,
            train=batches(inputs, labels),
            test=batches(
                jnp.asarray(self.inputs[who.test]), jnp.asarray(self.labels[who.test])
            ),
            warmup=batches(jnp.asarray(self.inputs[who.warmup])[None], own[None]),
            corrupted=bad,
            class_counts=one_hot[self.labels[who.train]].sum(1),
        )

    def _corrupted(
        self, rows: np.ndarray, bad: np.ndarray, root: Array
    ) -> tuple[Array, Array]:
        """The contributors' batches, (M, n, ...) and (M, n)."""
        config = self.config
        inputs, labels = jnp.asarray(self.inputs[rows]), jnp.asarray(self.labels[rows])
        if not len(bad):
            return inputs, labels
        one = partial(
            influence.corrupt,
            count=rows.shape[1],
            kind=config.corruption,
            num_classes=self.num_classes,
            share=config.corrupted_points,
        )
        keys = [prng.stream_key(root, prng.Stream.CORRUPTION, int(b)) for b in bad]
        made = jax.vmap(lambda x, y, key: one(x, y, key=key))(
            inputs[bad], labels[bad], jnp.stack(keys)
        )
        if config.corruption in influence.IMAGE_CORRUPTIONS:
            inputs = inputs.at[bad].set(made.inputs)
        return inputs, labels.at[bad].set(made.labels)

    def _features(self, warmup: np.ndarray, root: Array) -> Callable[[Array], Array]:
        frozen = self._frozen or self._made_here(warmup, root)
        return lambda inputs: last_layer.features(
            frozen.model,
            frozen.params,
            frozen.stats,
            inputs,
            batch_size=_FEATURE_BATCH,
        )

    def _made_here(self, warmup: np.ndarray, root: Array) -> Frozen:
        """A run's own network, as it starts or trained on the centre's examples."""
        config = self.config
        params, stats = self._model.init(
            prng.stream_key(root, prng.Stream.INIT), self._example
        )
        if self._choice == "warmup":
            params, stats = centre.warm_up(
                self._model,
                params,
                stats,
                preprocessing.device_examples(self.inputs[warmup], self.labels[warmup]),
                num_epochs=config.backbone_epochs,
                batch_size=config.batch_size,
                learning_rate=config.learning_rate,
                key=prng.stream_key(root, prng.Stream.INFLUENCE),
            )
        cut = last_layer.frozen_params(self._backbone, params)
        return Frozen(self._backbone.model, cut, stats, {})
