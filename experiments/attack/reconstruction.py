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

Written to --output_dir: config.json, scores.jsonl (one line per round and attacker),
MECHANISM.png (real beside reconstructed images, one row per class), results.json,
checkpoints/. --resume continues a killed run.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax.attacks import classifier, curious_clients
from fedsvp_jax.attacks.classifier import Classifier
from fedsvp_jax.attacks.curious_clients import Attack, CuriousClients
from fedsvp_jax.attacks.scores import Examiner, evenly
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core import prng
from fedsvp_jax.core.files import write_json
from fedsvp_jax.core.structs import Array
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading, plan
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder

from .. import command, flag_values, printed
from . import reconstruction_results, upload_claims
from .picture_table import PictureRow, picture_table

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


def defended_by(
    values: flags.FlagValues, config: ExperimentConfig
) -> list[ExperimentConfig]:
    """The settings under each mechanism that is attacked."""
    if values.mechanisms:
        flag_values.refuse_flags(
            values, ["mechanism"], "mechanisms names those to attack"
        )
    names = dict.fromkeys(values.mechanisms or [config.mechanism])
    return [resolve(dataclasses.replace(config, mechanism=name)) for name in names]


def trained_classifier(
    dataset: Dataset, folder: RunFolder, *, seed: int, num_clients: int, steps: int
) -> Classifier:
    """The independent classifier; it is kept in checkpoints/classifier."""
    place = folder.path / "checkpoints" / "classifier"
    checkpointer = Checkpointer(place, folder.identity)
    # The keys of clients end below num_clients, so this one is no client's.
    key = prng.stream_key(prng.root_key(seed), prng.Stream.ATTACKER, num_clients)
    saved = checkpointer.restore(classifier.initial_params(dataset, key))
    if saved is not None:
        return Classifier(dataset.num_classes, saved[0])
    params = classifier.train_classifier(dataset, key=key, steps=steps)
    checkpointer.save(steps, params)
    return Classifier(dataset.num_classes, params)


def real_images(dataset: Dataset, private: int) -> dict[str, Array]:
    """Test images beside which reconstructions are judged: of the class, of others."""
    held_out = dataset.test_labels == private
    images = preprocessing.normalize(jnp.asarray(dataset.test_inputs))
    return {
        "real images held out": images[held_out],
        "real images of other classes": images[~held_out],
    }


def _beside(
    real: dict[int, Array], generated: dict[int, Array], private: int
) -> list[PictureRow]:
    """Real images and reconstructed ones in [-1, 1], a row for each class made."""

    def pixels(images: Array) -> list[np.ndarray]:
        return list(np.asarray(images[:_SHOWN] / 2 + 0.5).clip(0, 1))

    return [
        PictureRow(
            f"{label} (private)" if label == private else str(label),
            [*pixels(real[label]), *pixels(images)],
            ["real"] * len(pixels(real[label]))
            + ["reconstructed"] * len(pixels(images)),
        )
        for label, images in generated.items()
    ]


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Attacks every mechanism with the same data, latents and networks."""
    configs = defended_by(values, config)
    attack = Attack(
        mode=values.attack_mode,
        num_attackers=values.num_attackers,
        steps=values.attack_steps,
        num_images=values.num_images,
    )
    dataset = loading.load_dataset(config)
    curious_clients.check(config, attack, dataset)
    chosen = {
        "attack": values.attack,
        "mechanisms": [defence.mechanism for defence in configs],
        "attack_mode": attack.mode,
        "attack_steps": attack.steps,
        "num_attackers": attack.num_attackers,
        "num_images": attack.num_images,
        "classifier_steps": values.classifier_steps,
    }
    settings = plan.recorded_settings(config, dataset) | environment() | chosen
    del settings["mechanism"]
    folder = RunFolder(values.output_dir)
    first = CuriousClients(configs[0], attack, dataset)
    split = cell_of(first.trainer.program.data.split, 0)
    ids = curious_clients.attacker_ids(config, attack)
    classes = curious_clients.shown_classes(config, dataset)
    real = {
        label: curious_clients.victims_images(dataset, split, ids, label)
        for label in classes
    }
    for defence in configs[1:]:  # refused before anything is written
        plan.mechanism_config(defence)
    folder.start(settings, resume=values.resume)
    judge = trained_classifier(
        dataset,
        folder,
        seed=config.seed,
        num_clients=config.num_clients,
        steps=values.classifier_steps,
    )
    examiner = Examiner(judge, real, num_images=attack.num_images)
    test = preprocessing.normalize(jnp.asarray(dataset.test_inputs))
    private = config.private_attribute
    test_images = real_images(dataset, private)
    results: dict[str, Any] = {
        "settings": settings,
        "extractor": judge.name,
        "classifier_accuracy": float(
            np.mean(judge.classify(test) == dataset.test_labels)
        ),
        "references": {
            name: examiner.score(evenly(images, attack.num_images), private)._asdict()
            for name, images in test_images.items()
        },
        "mechanisms": [],
    }
    pictures = []
    for place, defence in enumerate(configs):
        clients = first
        if place:
            clients = CuriousClients(defence, attack, dataset, model=first.model)
        summary, images = curious_clients.run_mechanism(
            clients, examiner, classes, folder
        )
        claim = upload_claims.least_noised(
            clients.trainer.program.mechanism,
            keeps_stats=clients.trainer.program.keeps_stats,
        )
        results["mechanisms"].append(summary | claim)
        pictures.append(folder.path / f"{defence.mechanism}.png")
        picture_table(pictures[-1], _beside(real, images, private))
    write_json(folder.path / "results.json", results)
    print(printed.table(reconstruction_results.table(results)))
    names = ("config.json", curious_clients.SCORES, "results.json")
    command.print_files([*(folder.path / name for name in names), *pictures])
