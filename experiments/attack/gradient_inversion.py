"""Gradient inversion: a client's image rebuilt from one upload.

The attacker is the server. It knows the broadcast model (the first one), the settings
and that the client took one local step on one image, so an upload is the gradient
times -eta, plus what the defence added. It reads the label off the last bias and
searches for the image whose own clipped gradient fits best: by squared distance (Deep
Leakage from Gradients) and by cosine with total variation (Geiping et al. 2020).

A defence is a mechanism with a sensitivity, MECHANISM:SENSITIVITY, at --epsilon an
upload; dp_fedavg takes the noise multiplier of that epsilon for the cohort's sum, so a
single upload carries 1/sqrt(K) of it. |D| = 1, and R = 1 (an image that is private).
fedsva has no analytic calibration: at epsilon >= 1 its formula is nominal. Rows
"gaussian" are noise of a given std on the upload, to see where an image is lost.

PSNR and SSIM compare with the client's image, pixels in [0, 1]; "mean image" is the
training set's average, a guess that needs no upload.

  python -m experiments.attack --attack=gradient_inversion --dataset=digits \\
      --output_dir=runs/inversion

Written to --output_dir: config.json, pieces/ (a finished defence each: --resume goes
on after the last), results.json, inversion.png.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import flags
from tqdm import tqdm

from fedsvp_jax import models, prng, tree
from fedsvp_jax.algorithm import local_training
from fedsvp_jax.algorithm.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.attacks import gradient_inversion as inversion
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading, plan
from fedsvp_jax.mechanisms import (
    MechanismConfig,
    analytic_multiplier,
    make_mechanism,
    noise,
    with_analytic_multiplier,
)
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json
from fedsvp_jax.structs import Array, Examples, MechanismState, Model, Params

from .picture_table import PictureRow, picture_table
from .pieces import kept, refuse_flags

DEFAULTS = {
    "model": "small_cnn",
    "batch_size": 1,
    "local_epochs": 1,
    "epsilon": 1.0,
    "delta": 1e-5,
    "calibration": "analytic",
}
_SENSITIVITIES = ("paper", "update_clip", "per_example")


def define_flags() -> None:
    """Whom to attack, against which defences, and how hard."""
    flags.DEFINE_integer(
        "inversion_victims", 3, "Clients attacked, one image each.", lower_bound=1
    )
    flags.DEFINE_list(
        "inversion_defences",
        "none:paper,nbafl:paper,fedsva:paper,dp_fedavg:update_clip,"
        "nbafl:update_clip,nbafl:per_example",
        "Defences, each MECHANISM:SENSITIVITY.",
    )
    flags.DEFINE_list(
        "inversion_noise_stds",
        "1e-5,1e-4,1e-3,1e-2",
        "Noise on the upload, for the rows gaussian; may be empty.",
    )
    flags.DEFINE_integer("inversion_steps", 1000, "Steps of the search.", lower_bound=8)
    flags.DEFINE_integer(
        "inversion_restarts", 16, "Starts of the search.", lower_bound=1
    )
    flags.DEFINE_float(
        "inversion_tv_weight",
        1e-5,
        "Weight of the total variation (cosine).",
        lower_bound=0.0,
    )


class Defence(NamedTuple):
    """What stands between a client's gradient and the server."""

    mechanism: str
    sensitivity: str
    noise_std: float = 0.0  # of gaussian

    @property
    def name(self) -> str:
        """Names the row and its file."""
        std = f"_{self.noise_std:g}" if self.mechanism == "gaussian" else ""
        return f"{self.mechanism}_{self.sensitivity}{std}"


class Victim(NamedTuple):
    """What the server knows and what it wants."""

    model: Model
    params: Params
    stats: Params
    examples: Examples  # (V, ...): an image a client
    num_classes: int


def defences(values: flags.FlagValues) -> list[Defence]:
    """The defences that the flags name, without noise first."""
    found = []
    for text in values.inversion_defences:
        mechanism, _, sensitivity = text.partition(":")
        if sensitivity not in _SENSITIVITIES:
            raise ValueError(
                "inversion_defences must be MECHANISM:SENSITIVITY with sensitivity "
                f"one of {', '.join(_SENSITIVITIES)}, got {text!r}"
            )
        found.append(Defence(mechanism, sensitivity))
    for text in values.inversion_noise_stds:
        try:
            std = float(text)
        except ValueError:
            std = math.nan
        if not 0 < std < math.inf:
            raise ValueError(f"inversion_noise_stds must be > 0, got {text!r}")
        found.append(Defence("gaussian", "update_clip", std))
    if len(set(found)) < len(found):
        raise ValueError("inversion_defences must name each defence once")
    return found


def mechanism_settings(config: ExperimentConfig, defence: Defence) -> MechanismConfig:
    """One image a client, one step."""
    printed = defence.mechanism in ("fedsva", "fedsdp")
    return with_analytic_multiplier(
        dataclasses.replace(
            plan.mechanism_settings(config),
            sensitivity=defence.sensitivity,
            noise_multiplier=float(analytic_multiplier(config.epsilon, config.delta)),
            noise_std=defence.noise_std,
            calibration="classical" if printed else config.calibration,
            allow_large_epsilon=printed or config.allow_large_epsilon,
        )
    )


def upload(
    config: ExperimentConfig,
    defence: Defence,
    victim: Victim,
    row: Array,
    *,
    key: Array,
) -> tuple[Params, Array]:
    """What one client sends (its update, noised), and ε as claimed for it."""
    mechanism = make_mechanism(defence.mechanism, mechanism_settings(config, defence))
    ratio, round_num = jnp.float32(1.0), jnp.int32(0)
    std = jnp.float32(0.0)
    if mechanism.step_noise_std is not None:
        std = mechanism.step_noise_std(ratio, round_num=round_num)
    gradient = plan.step_gradient(
        dataclasses.replace(config, sensitivity=defence.sensitivity)
    )
    trained, _ = local_training.local_update(
        victim.model,
        TrainingRecipe(batch_size=1, local_epochs=1, gradient=gradient),
        TrainingRates(config.learning_rate, config.l2_norm_clip, std, 0.0),
        victim.params,
        victim.stats,
        victim.examples,
        row[None],
        jnp.ones((1,), bool),
        key=prng.stream_key(key, prng.Stream.LOCAL_TRAINING, row),
        batch_size=1,
        lane_axes=(),
    )
    state = mechanism.init(1)
    noised, _, info = mechanism.update(
        jax.tree.map(jnp.subtract, trained, victim.params),
        MechanismState(
            clients=jax.tree.map(lambda leaf: leaf[0], state.clients),
            shared=state.shared,
        ),
        key=prng.stream_key(key, prng.Stream.NOISE, row),
        num_examples=jnp.int32(1),
        contribution_ratio=ratio,
        round_num=round_num,
        params=victim.params,
    )
    return noised, info.epsilon


def attack(
    config: ExperimentConfig,
    victim: Victim,
    search: inversion.Search,
    sent: Params,
    row: Array,
    *,
    key: Array,
) -> tuple[Array, Array, Array]:
    """(image (H, W, C) in [0, 1], its objective, the label read), from one upload."""
    seen = jax.tree.map(lambda leaf: -leaf / config.learning_rate, sent)
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

    found = inversion.invert(
        gradient_of,
        seen,
        (1, *victim.examples.inputs.shape[1:]),
        search,
        key=prng.stream_key(key, prng.Stream.INVERSION, row),
    )
    return (found.images[0] + 1) / 2, found.objective, label


def attack_defence(
    config: ExperimentConfig,
    victim: Victim,
    searches: list[inversion.Search],
    defence: Defence,
    invert: Any,
) -> list[dict[str, Any]]:
    """A row for each way of matching and each victim."""
    key = prng.round_key(prng.root_key(config.seed), 0)
    labels = np.asarray(victim.examples.labels)
    truth = np.asarray(victim.examples.inputs) / 255
    silent = Defence("none", defence.sensitivity)
    rows = []
    for number in range(len(labels)):
        row = jnp.int32(number)
        sent, epsilon = upload(config, defence, victim, row, key=key)
        clean, _ = upload(config, silent, victim, row, key=key)
        gap = tree.l2_norm(jax.tree.map(jnp.subtract, sent, clean))
        for search in searches:
            image, objective, label = jax.device_get(
                invert[search.match](sent, row, key=key)
            )
            rows.append(
                {
                    "mechanism": defence.mechanism,
                    "sensitivity": defence.sensitivity,
                    "noise_std": defence.noise_std,
                    "epsilon": epsilon,
                    "match": search.match,
                    "victim": number,
                    "noise_over_gradient": gap / tree.l2_norm(clean),
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


def summarize(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line a defence and way of matching, over its victims."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        named = Defence(row["mechanism"], row["sensitivity"], row["noise_std"]).name
        groups.setdefault((named, row["match"]), []).append(row)
    same = ("mechanism", "sensitivity", "noise_std", "epsilon", "match")
    return [
        {
            **{name: group[0][name] for name in same},
            "victims": len(group),
            "noise_over_gradient": float(
                np.mean([row["noise_over_gradient"] for row in group])
            ),
            "psnr_mean": float(np.mean([row["psnr"] for row in group])),
            "psnr_min": min(row["psnr"] for row in group),
            "psnr_max": max(row["psnr"] for row in group),
            "ssim_mean": float(np.mean([row["ssim"] for row in group])),
            "labels_read": sum(row["label"] == row["label_read"] for row in group),
        }
        for group in groups.values()
    ]


def format_table(table: list[dict[str, Any]], guess: dict[str, float]) -> str:
    """The table for a terminal."""
    head = ("defence", "match", "noise/grad", "PSNR", "least", "most", "SSIM", "label")
    lines = [head]
    for row in table:
        defence = Defence(row["mechanism"], row["sensitivity"], row["noise_std"])
        lines.append(
            (
                defence.name,
                row["match"],
                f"{row['noise_over_gradient']:.3g}",
                f"{row['psnr_mean']:.1f}",
                f"{row['psnr_min']:.1f}",
                f"{row['psnr_max']:.1f}",
                f"{row['ssim_mean']:.2f}",
                f"{row['labels_read']}/{row['victims']}",
            )
        )
    numbers = (f"{guess['psnr']:.1f}", "", "", f"{guess['ssim']:.2f}", "")
    lines.append(("mean image", "no upload", "", *numbers))
    return "\n".join(
        f"{name:<28}" + "".join(f"{text:>11}" for text in rest) for name, *rest in lines
    )


def draw(
    path: Any, truth: np.ndarray, rows: list[dict[str, Any]], matches: list[str]
) -> None:
    """The clients' images, and below them what each defence let through."""
    caption = [f"{match}: truth" for match in matches for _ in truth]
    shown = [PictureRow("the clients' images", [*truth] * len(matches), caption)]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        named = Defence(row["mechanism"], row["sensitivity"], row["noise_std"]).name
        by_name.setdefault(named, []).append(row)
    for name, group in by_name.items():
        ordered = [row for match in matches for row in group if row["match"] == match]
        shown.append(
            PictureRow(
                "none" if group[0]["mechanism"] == "none" else name.replace("_", " "),
                [np.asarray(row["image"]) / 255 for row in ordered],
                [f"{row['psnr']:.1f} dB" for row in ordered],
            )
        )
    picture_table(path, shown)


def check(values: flags.FlagValues, config: ExperimentConfig, data: Dataset) -> None:
    """Refuses what the attack does not know how to invert."""
    refuse_flags(
        values,
        ("mechanism", "sensitivity", "noise_std", "noise_multiplier"),
        "inversion_defences and inversion_noise_stds name the defences",
    )
    refuse_flags(
        values,
        ("contribution_release", "release_epsilon", "clip_weights", "downlink_noise"),
        "it changes nothing in the upload that is inverted",
    )
    for name in ("batch_size", "local_epochs"):
        if getattr(config, name) != 1:
            raise ValueError(
                f"{name} must be 1, one step on one image, got {getattr(config, name)}"
            )
    if data.train_inputs.dtype != np.uint8 or len(data.example_shape) != 3:
        raise ValueError(
            f"dataset must hold uint8 images, {config.dataset} has "
            f"{data.train_inputs.dtype} of the shape {data.example_shape}"
        )
    if values.inversion_victims > len(data.train_labels):
        raise ValueError(
            f"inversion_victims must be at most {len(data.train_labels)}, the "
            f"training images, got {values.inversion_victims}"
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
    return Victim(model, params, stats, examples, data.num_classes)


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Every defence attacked on the same clients."""
    data = loading.load_dataset(config)
    check(values, config, data)
    tried = defences(values)
    for defence in tried:
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
    folder = RunFolder(values.output_dir)
    chosen = {
        "attack": values.attack,
        "defences": [defence.name for defence in tried],
        "victims": values.inversion_victims,
        "searches": [dataclasses.asdict(search) for search in searches],
    }
    folder.start(
        plan.recorded_settings(config, data) | environment() | chosen,
        resume=values.resume,
    )

    def compiled(search: inversion.Search) -> Any:
        return jax.jit(
            lambda sent, row, key: attack(config, victim, search, sent, row, key=key)
        )

    invert = {search.match: compiled(search) for search in searches}
    rows: list[dict[str, Any]] = []
    for defence in tqdm(tried, unit="defence", disable=None):
        rows += kept(
            folder,
            defence.name,
            partial(attack_defence, config, victim, searches, defence, invert),
        )
    truth = np.asarray(victim.examples.inputs) / 255
    mean = data.train_inputs.mean(axis=0) / 255
    guess = {
        "psnr": float(np.mean([inversion.psnr(mean, image) for image in truth])),
        "ssim": float(np.mean([inversion.ssim(mean, image) for image in truth])),
    }
    table = summarize(rows)
    write_json(
        folder.path / "results.json",
        {
            "attack": values.attack,
            "num_parameters": tree.num_parameters(victim.params),
            "mean_image": guess,
            "defences": table,
            "images": rows,
        },
    )
    matches = [search.match for search in searches]
    draw(folder.path / "inversion.png", truth, rows, list(matches))
    print(format_table(table, guess))
    print("files:")
    for name in ("config.json", "results.json", "inversion.png"):
        print(f"  {folder.path}/{name}")
