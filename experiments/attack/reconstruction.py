"""A curious client reconstructs images of the class that it does not hold.

Each of --num_attackers honest-but-curious clients holds no image of the private class,
takes part in the federation and sees every global model. Between rounds it trains a
generator to make images that the global model assigns to the private class and that a
discriminator cannot tell from the attacker's own images (docs/attacks.md). With
--attack_mode=active it also trains its upload on these images, mislabelled.

An independent classifier is trained on the real data. Distances are taken between its
features of --num_images reconstructions and as many images of the victims:
  recognised         share of reconstructions that the classifier assigns to the class
  Fréchet distance   between the features; 0 for equal Gaussians
  increase           of that distance over FedAvg's (mechanism none), in percent
  kernel distance    between the features, unbiased, with its standard error
  nearest            RMS pixel distance to the nearest of the victims' images

A piece of the work is a mechanism. The pictures are MECHANISM.png: real beside
reconstructed images, one row per class.
"""

import dataclasses
import functools
import pathlib
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax import models
from fedsvp_jax.attacks import classifier, curious_clients
from fedsvp_jax.attacks.curious_clients import Attack
from fedsvp_jax.attacks.scores import Examiner, evenly
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation import build, federated_data, loading, plan
from fedsvp_jax.report import labels
from fedsvp_jax.run.trainer import Trainer

from .. import flag_values, printed
from . import upload_claims
from .picture_table import picture_table
from .work import Work

DEFAULTS = {"num_rounds": 20, "epsilon": 0.3}
_SHOWN = 8  # images of each kind in a row of the picture


def define_flags() -> None:
    """Defines the attackers, what they attack and how they are scored."""
    flags.DEFINE_list(
        "mechanisms",
        [],
        "Mechanisms to attack; list `none` first if you want the increase over FedAvg. "
        "Default: the one of --mechanism.",
    )
    flags.DEFINE_enum(
        "attack_mode",
        "passive",
        ["passive", "active"],
        "passive: the attackers upload honestly; active: they train their upload on "
        "their own mislabelled images (Hitaj et al. 2017).",
    )
    flags.DEFINE_integer(
        "num_attackers",
        1,
        "Number of curious clients that attack, each one alone, in the same run.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "attack_steps", 100, "Generator steps after every round.", lower_bound=1
    )
    flags.DEFINE_integer(
        "num_images", 500, "Reconstructions that are scored.", lower_bound=3
    )
    flags.DEFINE_integer(
        "classifier_steps",
        600,
        "Training steps of the independent classifier, on 100 images each.",
        lower_bound=1,
    )


def table(results: dict[str, Any]) -> list[dict[str, str]]:
    """One row of texts per mechanism and reference: scores of the private class.

    The increase is over the mechanism none (FedAvg), as in FedSVA, Fig. 3; it is empty
    if none was not attacked. A number after ± is the std over several attackers, in
    the kernel distance the standard error.
    """
    several = results["settings"]["num_attackers"] > 1
    by_name = {row["mechanism"]: row["classes"][0] for row in results["mechanisms"]}
    rows = []
    for row in results["mechanisms"]:
        private, increase = row["classes"][0], ""
        distance = private["frechet_distance"]
        if "none" in by_name and row["mechanism"] != "none":
            before = by_name["none"]["frechet_distance"]
            increase = f"{100 * (distance / before - 1):+.1f}"
        rows.append(
            {
                "mechanism": row["mechanism"],
                "largest ε per upload": upload_claims.claim_text(row),
                "test accuracy %": f"{100 * row['test_accuracy']:.1f}",
                **_scores(private, several=several),
                "increase over none, %": increase,
            }
        )
    for name, scores in results["references"].items():
        rows.append(
            dict.fromkeys(rows[0], "") | {"mechanism": f"({name})"} | _scores(scores)
        )
    return rows


def _scores(scores: dict[str, float], *, several: bool = False) -> dict[str, str]:
    """The texts of the scores, two of them with their std over several attackers."""
    std = scores["recognised_std"] if several else None
    spread = f" ± {scores['frechet_distance_std']:.2f}" if several else ""
    error = scores["kernel_standard_error"]
    return {
        "recognised %": labels.percent(scores["recognised"], std, digits=1),
        "Fréchet distance": f"{scores['frechet_distance']:.2f}{spread}",
        "kernel distance": f"{scores['kernel_distance']:.4g} ± {error:.3g}",
        "nearest": f"{scores['nearest_distance']:.3f}",
    }


def pixels(images: Array) -> list[np.ndarray]:
    """The first images of those in [-1, 1], as bytes."""
    return list(np.asarray((images[:_SHOWN] + 1) * 127.5).round().astype(np.uint8))


def prepare(values: flags.FlagValues, config: ExperimentConfig) -> Work:
    """Every mechanism with the same data, latents and networks."""
    if values.mechanisms:
        flag_values.refuse_flags(
            values, ["mechanism"], "mechanisms names those to attack"
        )
    names = dict.fromkeys(values.mechanisms or [config.mechanism])
    configs = {
        name: resolve(dataclasses.replace(config, mechanism=name)) for name in names
    }
    attack = Attack(
        mode=values.attack_mode,
        num_attackers=values.num_attackers,
        steps=values.attack_steps,
        num_images=values.num_images,
    )
    dataset = loading.load_dataset(config)
    curious_clients.check(config, attack, dataset)
    for defence in configs.values():
        plan.mechanism_config(defence)
    private = config.private_attribute
    split = cell_of(federated_data.federate([config], dataset).split, 0)
    ids = curious_clients.attacker_ids(config, attack)
    real = {
        label: curious_clients.victims_images(dataset, split, ids, label)
        for label in curious_clients.shown_classes(config, dataset)
    }
    model = models.make_model(config.model, num_classes=dataset.num_classes)
    settings = plan.recorded_settings(config, dataset) | {"mechanisms": [*names]}
    del settings["mechanism"]

    @functools.cache
    def judge() -> classifier.Judge:
        root = prng.root_key(config.seed)
        # The keys of clients end below num_clients, so this one is no client's.
        key = prng.stream_key(root, prng.Stream.ATTACKER, config.num_clients)
        return classifier.train_classifier(
            dataset, key=key, steps=values.classifier_steps
        )

    @functools.cache
    def examiner() -> Examiner:
        return Examiner(judge(), real, attack.num_images)

    def attack_mechanism(defence: ExperimentConfig) -> dict[str, Any]:
        trainer = Trainer(build([defence], dataset))
        claim = upload_claims.least_noised(
            trainer.program.mechanism, keeps_stats=trainer.program.keeps_stats
        )
        row = curious_clients.attacked_federation(
            trainer, defence, attack, dataset, model, examiner()
        )
        pictures = {label: pixels(images) for label, images in row["pictures"].items()}
        return {"mechanism": defence.mechanism} | claim | row | {"pictures": pictures}

    def finish(rows: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
        for name, row in rows.items():
            lines = {}
            for label, images in row.pop("pictures").items():
                is_private = label == str(private)
                lines[f"{label} (private)" if is_private else label] = [
                    *((image / 255, "real") for image in pixels(real[int(label)])),
                    *((np.divide(image, 255), "reconstructed") for image in images),
                ]
            picture_table(folder / f"{name}.png", lines)
        test = preprocessing.normalize(jnp.asarray(dataset.test_inputs))
        held_out = dataset.test_labels == private
        references = {
            "real images held out": test[held_out],
            "real images of other classes": test[~held_out],
        }
        results = {
            "settings": settings | {"num_attackers": attack.num_attackers},
            "classifier_accuracy": float(
                np.mean(judge()(test)[1] == dataset.test_labels)
            ),
            "references": {
                name: examiner()
                .score(evenly(images, attack.num_images), private)
                ._asdict()
                for name, images in references.items()
            },
            "mechanisms": [*rows.values()],
        }
        print(printed.table(table(results)))
        return results

    return Work(
        data=dataset,
        settings=settings,
        pieces={
            name: partial(attack_mechanism, defence)
            for name, defence in configs.items()
        },
        finish=finish,
    )
