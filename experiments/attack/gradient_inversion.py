"""Gradient inversion: a client's image is rebuilt from one upload.

The attacker is the server. It knows the settings, the first broadcast model, and that
the client took one local step on one image. An upload is therefore the gradient times
-eta, plus the noise of the defence. The attacker reads the label from the gradient of
the last bias and searches for the image whose own clipped gradient fits best: by
squared distance (Deep Leakage from Gradients) and by cosine distance with total
variation (Geiping et al. 2020).

A defence is a mechanism with a sensitivity, MECHANISM:SENSITIVITY, with --epsilon per
upload. The noise of dp_fedavg is computed for the cohort's sum at that epsilon, and a
single upload carries 1/sqrt(K) of it. |D| = 1, and R = 1 (the image is private).
fedsva and fedsdp have no analytic calibration: at epsilon >= 1 their printed formula is
nominal. --inversion_epsilons adds rows of gaussian at large epsilons, which show how
much noise hides an image.

PSNR and SSIM compare the rebuilt image with the client's, pixels in [0, 1]. "mean
image" is the average training image, a guess that needs no upload.

  python -m experiments.attack --attack=gradient_inversion --dataset=digits \\
      --output_dir=runs/inversion

Written to --output_dir: config.json, pieces/ (one file per finished defence, from which
--resume continues), results.json, inversion.png.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import flags

from fedsvp_jax import models
from fedsvp_jax.attacks import gradient_inversion as inversion
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import prng, tree
from fedsvp_jax.core.files import write_json
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    Model,
    NoiseInfo,
    Params,
    Rows,
    Weights,
)
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading, plan
from fedsvp_jax.mechanisms import make_mechanism, noise
from fedsvp_jax.mechanisms.base import over_data
from fedsvp_jax.round import client_work
from fedsvp_jax.round.local_training import TrainingRates, TrainingRecipe

from .. import command, flag_values, printed
from . import inversion_results, upload_claims
from .inversion_defences import Defence, mechanism_settings, named_defences
from .resumable import finished_or_made

DEFAULTS = {
    "model": "small_cnn",
    "batch_size": 1,
    "local_epochs": 1,
    "epsilon": 1.0,
    "delta": 1e-5,
    "calibration": "analytic",
}


def define_flags() -> None:
    """Defines whom to attack, against which defences, and how long to search."""
    flags.DEFINE_integer(
        "inversion_victims",
        3,
        "Number of attacked clients, with one image each.",
        lower_bound=1,
    )
    flags.DEFINE_list(
        "inversion_defences",
        "none:paper,nbafl:paper,fedsva:paper,dp_fedavg:update_clip,"
        "gaussian:update_clip,gaussian:per_example",
        "Defences to attack, each MECHANISM:SENSITIVITY.",
    )
    flags.DEFINE_list(
        "inversion_epsilons",
        "2e10,2e8,2e6,2e4",
        "Epsilons, per upload, of further rows gaussian:update_clip; may be empty.",
    )
    flags.DEFINE_integer(
        "inversion_steps", 1000, "Steps of each search.", lower_bound=8
    )
    flags.DEFINE_integer(
        "inversion_restarts",
        16,
        "Searches per image, from different random starts; the best fit is kept.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "inversion_tv_weight",
        1e-5,
        "Weight of the total variation in the cosine search.",
        lower_bound=0.0,
    )


class Victim(NamedTuple):
    """The server's knowledge, and the images that it wants."""

    model: Model
    params: Params
    stats: Params
    examples: Examples  # (V, ...): one image per client
    num_classes: int
    from_records: tuple[str, ...]  # as `Dataset` has it


def upload(
    config: ExperimentConfig,
    defence: Defence,
    victim: Victim,
    row: Array,
    *,
    key: Array,
) -> tuple[Params, NoiseInfo]:
    """One client's noised update, and its NoiseInfo."""
    mechanism = make_mechanism(defence.mechanism, mechanism_settings(config, defence))
    ratio, round_num = jnp.float32(1.0), jnp.int32(0)
    gradient = plan.step_gradient(
        dataclasses.replace(config, sensitivity=defence.sensitivity)
    )
    rates = TrainingRates(config.learning_rate, config.l2_norm_clip, 0.0, 0.0)
    at = Address(key, row, round_num)
    trained = client_work.train(
        victim.model,
        TrainingRecipe(batch_size=1, local_epochs=1, gradient=gradient),
        client_work.with_step_noise(rates, mechanism, ratio=ratio, round_num=round_num),
        Weights(victim.params, victim.stats),
        Rows(victim.examples, row[None], jnp.ones((1,), bool)),
        at,
    )
    noised, _, info = client_work.add_noise(
        mechanism,
        jax.tree.map(jnp.subtract, trained.params, victim.params),
        mechanism.init(1).of(0),
        num_examples=jnp.int32(1),
        ratio=ratio,
        params=victim.params,
        at=at,
    )
    return noised, info


def attack(
    config: ExperimentConfig,
    victim: Victim,
    search: inversion.Search,
    noised: Params,
    row: Array,
    *,
    key: Array,
) -> tuple[Array, Array, Array]:
    """Rebuilds an image from one upload.

    Returns:
      `(image, objective, label)`: (H, W, C) in [0, 1], how badly its gradient fits,
      and the label that was read from the upload.
    """
    seen = jax.tree.map(lambda leaf: -leaf / config.learning_rate, noised)
    label = inversion.inferred_label(seen, victim.num_classes)

    def gradient_of(images: Array) -> Params:
        def loss(params: Params) -> Array:
            logits, _ = victim.model.apply(
                params, victim.stats, images, train=True, key=None
            )
            return optax.softmax_cross_entropy_with_integer_labels(
                logits, label[None]
            ).mean()

        gradient = jax.grad(loss)(victim.params)
        return noise.clip_by_l2_norm(gradient, config.l2_norm_clip)[0]

    best = inversion.invert(
        gradient_of,
        seen,
        (1, *victim.examples.inputs.shape[1:]),
        search,
        key=prng.stream_key(key, prng.Stream.INVERSION, row),
    )
    return (best.images[0] + 1) / 2, best.objective, label


def attack_defence(
    config: ExperimentConfig,
    victim: Victim,
    searches: list[inversion.Search],
    defence: Defence,
    invert: Any,
) -> list[dict[str, Any]]:
    """One row per victim and way of matching."""
    key = prng.round_key(prng.root_key(config.seed), 0)
    labels = np.asarray(victim.examples.labels)
    truth = np.asarray(victim.examples.inputs) / 255
    no_defence = Defence("none", defence.sensitivity)
    mechanism = over_data(
        make_mechanism(defence.mechanism, mechanism_settings(config, defence)),
        victim.from_records,
    )
    rows = []
    for number in range(len(labels)):
        row = jnp.int32(number)
        noised, info = upload(config, defence, victim, row, key=key)
        clean, _ = upload(config, no_defence, victim, row, key=key)
        noise_norm = tree.l2_norm(jax.tree.map(jnp.subtract, noised, clean))
        for search in searches:
            image, objective, label = jax.device_get(
                invert[search.match](noised, row, key=key)
            )
            rows.append(
                {
                    "mechanism": defence.mechanism,
                    "sensitivity": defence.sensitivity,
                    "defence": defence.name,
                    **upload_claims.claim_of_upload(
                        mechanism,
                        float(info.epsilon),
                        float(info.delta),
                        keeps_stats=bool(jax.tree.leaves(victim.stats)),
                    ),
                    "match": search.match,
                    "victim": number,
                    "noise_over_gradient": noise_norm / tree.l2_norm(clean),
                    "objective": objective,
                    "label": labels[number],
                    "label_read": label,
                    "psnr": inversion.psnr(image, truth[number]),
                    "ssim": inversion.ssim(image, truth[number]),
                    "image": np.round(255 * np.asarray(image)).astype(np.uint8),
                }
            )
    return [
        {name: np.asarray(value)[()] for name, value in row.items()} for row in rows
    ]


def check(values: flags.FlagValues, config: ExperimentConfig, data: Dataset) -> None:
    """Refuses settings under which the attack cannot invert an upload."""
    flag_values.refuse_flags(
        values,
        ("mechanism", "sensitivity", "noise_multiplier"),
        "inversion_defences and inversion_epsilons name the defences",
    )
    flag_values.refuse_flags(
        values,
        ("contribution_release", "release_epsilon", "downlink_noise"),
        "it does not change the upload that is inverted",
    )
    for name in ("batch_size", "local_epochs"):
        if getattr(config, name) != 1:
            raise ValueError(
                f"{name} must be 1 (the client takes one step on one image), got "
                f"{getattr(config, name)}"
            )
    if data.train_inputs.dtype != np.uint8 or len(data.example_shape) != 3:
        raise ValueError(
            f"dataset must hold uint8 images; the examples of {config.dataset} are "
            f"{data.train_inputs.dtype} of shape {data.example_shape}"
        )
    if values.inversion_victims > len(data.train_labels):
        raise ValueError(
            f"inversion_victims must be at most {len(data.train_labels)} (the number "
            f"of training images), got {values.inversion_victims}"
        )


def make_victim(config: ExperimentConfig, data: Dataset, count: int) -> Victim:
    """The first broadcast model and `count` clients with a random image each."""
    root = prng.root_key(config.seed)
    chosen = jax.random.permutation(
        prng.stream_key(root, prng.Stream.INVERSION), len(data.train_labels)
    )[:count]
    rows = np.asarray(chosen)
    examples = preprocessing.device_examples(
        data.train_inputs[rows], data.train_labels[rows]
    )
    model = models.make_model(config.model, num_classes=data.num_classes)
    params, stats = model.init(
        prng.stream_key(root, prng.Stream.INIT),
        preprocessing.normalize(examples.inputs[:1]),
    )
    return Victim(model, params, stats, examples, data.num_classes, data.from_records)


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Attacks the same clients under every defence."""
    data = loading.load_dataset(config)
    check(values, config, data)
    defences = named_defences(values)
    for defence in defences:
        make_mechanism(defence.mechanism, mechanism_settings(config, defence))
    searches = [
        inversion.Search(
            match,
            steps=values.inversion_steps,
            restarts=values.inversion_restarts,
            tv_weight=values.inversion_tv_weight,
        )
        for match in inversion.MATCHES
    ]
    victim = make_victim(config, data, values.inversion_victims)
    folder = command.start_folder(
        values,
        plan.recorded_settings(config, data),
        attack=values.attack,
        defences=[defence.name for defence in defences],
        victims=values.inversion_victims,
        searches=[dataclasses.asdict(search) for search in searches],
    )

    def compiled(search: inversion.Search) -> Any:
        return jax.jit(
            lambda noised, row, key: attack(
                config, victim, search, noised, row, key=key
            )
        )

    invert = {search.match: compiled(search) for search in searches}
    rows: list[dict[str, Any]] = []
    for defence in progress_bar(defences, unit="defence", disable=None):
        rows += finished_or_made(
            folder,
            defence.name,
            partial(attack_defence, config, victim, searches, defence, invert),
        )
    truth = np.asarray(victim.examples.inputs) / 255
    mean_image = data.train_inputs.mean(axis=0) / 255
    mean_image_scores = {
        "psnr": float(np.mean([inversion.psnr(mean_image, image) for image in truth])),
        "ssim": float(np.mean([inversion.ssim(mean_image, image) for image in truth])),
    }
    summaries = inversion_results.summarize(rows)
    write_json(
        folder.path / "results.json",
        {
            "attack": values.attack,
            "num_parameters": tree.num_parameters(victim.params),
            "mean_image": mean_image_scores,
            "defences": summaries,
            "images": rows,
        },
    )
    inversion_results.draw(
        folder.path / "inversion.png", truth, rows, [*inversion.MATCHES]
    )
    print(printed.table(inversion_results.table(summaries, mean_image_scores)))
    names = ("config.json", "results.json", "inversion.png")
    command.print_files(folder.path / name for name in names)
