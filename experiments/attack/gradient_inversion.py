"""Gradient inversion: a client's image is rebuilt from one upload.

The attacker is the server. It knows the settings, the first broadcast model, and that
the client took one local step on one image. An upload is therefore the gradient times
-eta, plus the noise of the defence. The attacker reads the label from the gradient of
the last bias and searches for the image whose own clipped gradient fits best: by
squared distance (Deep Leakage from Gradients) and by cosine distance with total
variation (Geiping et al. 2020).

A defence is MECHANISM:CLIPPING with --epsilon per upload, or with one of its own,
MECHANISM:CLIPPING:EPSILON; gaussian at large epsilons shows how much noise hides an
image. The noise of dp_fedavg is computed for the cohort's sum at that epsilon, and a
single upload carries 1/sqrt(K) of it. |D| = 1, and R = 1 (the image is private).
fedsva and fedsdp have no analytic calibration: at epsilon >= 1 their printed formula is
nominal.

PSNR compares the rebuilt image with the client's, pixels in [0, 1]; its 95 % interval
over clients is printed from five on. What the claimed ε allows is a share of guesses
which of two images an upload is of: no ε limits PSNR as such. "mean image" is the
average training image, a guess that needs no upload.

  fedsvp attack --attack=gradient_inversion --dataset=digits \\
      --output_dir=runs/inversion

A piece of the work is a defence. The images are in inversion.html.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import flags

from fedsvp_jax import models
from fedsvp_jax.accounting import Account, Participation, claims
from fedsvp_jax.accounting.participation import STATS_LEAVE
from fedsvp_jax.attacks import gradient_inversion as inversion
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import prng, tree
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    Model,
    NoiseInfo,
    Params,
    Rows,
    Weights,
    cross_entropy,
)
from fedsvp_jax.core.student import half_width
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading, plan
from fedsvp_jax.mechanisms import analytic_multiplier, noise
from fedsvp_jax.report import page
from fedsvp_jax.round import client_work
from fedsvp_jax.round.local_training import TrainingRates, TrainingRecipe

from .. import printed
from .work import Work

_CLIPPINGS = ("paper", "update_clip", "per_example")
_DEFENCE = re.compile(rf"(\w+):({'|'.join(_CLIPPINGS)})(?::(\d+\.?\d*(?:e\d+)?))?")


def defended(config: ResolvedConfig, text: str) -> ResolvedConfig:
    """The settings under a defence of --inversion_defences.

    fedsva and fedsdp have no analytic calibration: their printed formula is taken,
    which at ε ≥ 1 is nominal.

    Raises:
      ValueError: the text is no defence.
    """
    match = _DEFENCE.fullmatch(text)
    if match is None:
        raise ValueError(
            "inversion_defences must be MECHANISM:CLIPPING or MECHANISM:CLIPPING:"
            f"EPSILON, clipping one of {', '.join(_CLIPPINGS)}, got {text!r}"
        )
    mechanism, clipping, epsilon = match.groups()
    printed = mechanism in ("fedsva", "fedsdp")
    return dataclasses.replace(
        config,
        mechanism=mechanism,
        clipping=clipping,
        noise_multiplier=float(analytic_multiplier(config.epsilon, config.delta)),
        epsilon=float(epsilon or config.epsilon),
        calibration="classical" if printed else config.calibration,
        allow_large_epsilon=printed or config.allow_large_epsilon,
    )


class Victim(NamedTuple):
    """The server's knowledge, and the images that it wants."""

    model: Model
    weights: Weights
    examples: Examples  # (V, ...): one image per client
    data: Dataset


def upload(
    defence: ResolvedConfig, victim: Victim, row: Array, *, key: Array
) -> tuple[Params, NoiseInfo]:
    """One client's noised update, and its NoiseInfo."""
    _, mechanism = plan.make_configured_mechanism(defence)
    ratio, round_num = jnp.float32(1.0), jnp.int32(0)
    gradient = plan.step_gradient(defence)
    rates = TrainingRates(defence.learning_rate, defence.l2_norm_clip)
    at = prng.Address(key, row, round_num)
    trained = client_work.train(
        victim.model,
        TrainingRecipe(batch_size=1, local_epochs=1, gradient=gradient),
        client_work.with_step_noise(rates, mechanism, ratio=ratio, round_num=round_num),
        victim.weights,
        Rows(victim.examples, row[None], jnp.ones((1,), bool)),
        at,
    )
    noised, _, info = client_work.add_noise(
        mechanism,
        optax.tree.sub(trained.params, victim.weights.params),
        mechanism.init(1).of(0),
        num_examples=jnp.int32(1),
        ratio=ratio,
        params=victim.weights.params,
        at=at,
    )
    return noised, info


def attack(
    config: ResolvedConfig,
    victim: Victim,
    search: inversion.Search,
    noised: Params,
    row: Array,
    key: Array,
) -> tuple[Array, Array]:
    """Rebuilds an image from one upload.

    Returns:
      `(image, label)`: (H, W, C) in [0, 1], and the label that was read from the
      upload.
    """
    seen = jax.tree.map(lambda leaf: -leaf / config.learning_rate, noised)
    label = inversion.inferred_label(seen, victim.data.num_classes)
    params, stats = victim.weights

    def gradient_of(images: Array) -> Params:
        def loss(params: Params) -> Array:
            logits, _ = victim.model.apply(params, stats, images, train=True, key=None)
            return cross_entropy(logits, label[None]).mean()

        return noise.clip_by_l2_norm(jax.grad(loss)(params), config.l2_norm_clip)[0]

    images, _ = inversion.invert(
        gradient_of,
        seen,
        (1, *victim.data.example_shape),
        search,
        key=prng.stream_key(key, prng.Stream.INVERSION, row),
    )
    return (images[0] + 1) / 2, label


def attack_defence(
    name: str,
    defence: ResolvedConfig,
    victim: Victim,
    invert: Mapping[inversion.Match, Any],
) -> list[Record]:
    """One row per way of matching, over all victims."""
    key = prng.round_key(prng.root_key(defence.seed), 0)
    no_defence = dataclasses.replace(defence, mechanism="none")
    true_labels = np.asarray(victim.examples.labels)
    count = len(true_labels)
    victims = [*map(jnp.int32, range(count))]
    uploads, clean_uploads = (
        [*map(jax.jit(partial(upload, config, victim, key=key)), victims)]
        for config in (defence, no_defence)
    )
    lengths = [
        float(tree.l2_norm(optax.tree.sub(noised, clean)) / tree.l2_norm(clean))
        for (noised, _), (clean, _) in zip(uploads, clean_uploads, strict=True)
    ]
    info = uploads[0][1]
    _, mechanism = plan.make_configured_mechanism(defence, victim.data.from_records)
    nominal = STATS_LEAVE if jax.tree.leaves(victim.weights.stats) else ""
    account = Account.of(mechanism, Participation(nominal=nominal))
    claim = claims.of_upload(account, info.epsilon, info.delta)
    rows = []
    for match, rebuild in invert.items():
        images, labels = zip(
            *(
                jax.device_get(rebuild(noised, row, key))
                for row, (noised, _) in zip(victims, uploads, strict=True)
            ),
            strict=True,
        )
        psnr = [*map(inversion.psnr, images, truth(victim))]
        rows.append(
            {
                "defence": name,
                "mechanism": defence.mechanism,
                "clipping": defence.clipping,
                **claim,
                "match": match,
                "victims": count,
                "noise_over_gradient": np.mean(lengths),
                "psnr_mean": np.mean(psnr),
                "psnr_min": min(psnr),
                "psnr_max": max(psnr),
                "psnr_half_width": half_width(np.std(psnr, ddof=count > 1), count),
                "labels_read": np.sum(np.equal(labels, true_labels)),
                "images": np.round(255 * np.asarray(images)).astype(np.uint8),
            }
        )
    return rows


def truth(victim: Victim) -> np.ndarray:
    """(V, H, W, C): the clients' images, pixels in [0, 1]."""
    return np.asarray(victim.examples.inputs) / 255


def make_victim(config: ResolvedConfig, data: Dataset, count: int) -> Victim:
    """The first broadcast model and `count` clients with a random image each.

    Raises:
      ValueError: the data are no images.
    """
    if data.train_inputs.dtype != np.uint8 or len(data.example_shape) != 3:
        raise ValueError(
            f"dataset must hold uint8 images; the examples of {config.dataset} are "
            f"{data.train_inputs.dtype} of shape {data.example_shape}"
        )
    root = prng.root_key(config.seed)
    key = prng.stream_key(root, prng.Stream.INVERSION)
    rows = np.asarray(jax.random.permutation(key, len(data.train_labels))[:count])
    examples = preprocessing.device_examples(
        data.train_inputs[rows], data.train_labels[rows]
    )
    model = models.make_model(config.model, num_classes=data.num_classes)
    weights = model.init(
        prng.stream_key(root, prng.Stream.INIT),
        preprocessing.normalize(examples.inputs[:1]),
    )
    return Victim(model, Weights(*weights), examples, data)


def prepare(values: flags.FlagValues, config: ResolvedConfig) -> Work:
    """The same clients under every defence."""
    data = loading.load_dataset(config)
    victim = make_victim(config, data, values.inversion_victims)
    texts = values.inversion_defences
    defences = {text.replace(":", "_"): defended(config, text) for text in texts}
    if len(defences) < len(texts):
        raise ValueError("inversion_defences must name each defence once")
    for defence in defences.values():
        plan.make_configured_mechanism(defence)
    length = values.inversion_steps, values.inversion_restarts
    invert = {
        match: jax.jit(
            partial(attack, config, victim, inversion.Search(match, *length))
        )
        for match in inversion.MATCHES
    }

    def finish(by_defence: Record, folder: pathlib.Path) -> Record:
        rows = [row for rows in by_defence.values() for row in rows]
        guess = data.train_inputs.mean(axis=0) / 255
        images = truth(victim)
        mean_image = np.mean([inversion.psnr(guess, image) for image in images])
        pictures = {"the clients' images": victim.examples.inputs.tolist()} | {
            f"{row['defence']} {row['match']}".replace("_", " "): row["images"]
            for row in rows
        }
        page.write(folder / "inversion.html", "pictures.html", pictures=pictures)
        printed.print_rows(
            "attack_gradient_inversion.txt",
            [*rows, {"guess": mean_image}],
            folder,
            victims=len(images),
        )
        return {"mean_image_psnr": mean_image, "defences": rows}

    return Work(
        data,
        plan.recorded_settings(config, data),
        pieces={
            name: partial(attack_defence, name, defence, victim, invert)
            for name, defence in defences.items()
        },
        finish=finish,
    )
