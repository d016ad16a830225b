"""An honest-but-curious client reconstructs the class that it does not hold.

Each of --num_attackers curious clients holds no image of the private class, takes part
in the federation, sees every global model, and between rounds trains a generator to
make what that model calls the private class and what a discriminator cannot tell from
the attacker's own images (docs/attacks.md). With --attack_mode=active it also
trains its own upload on what it made, mislabelled.

A classifier that is trained here on the real data says what share of the
reconstructions it recognises, and distances are taken in its features (or, with
--inception_weights, in Inception-v3's), between --num_images reconstructions and as
many of the victims' images:
  recognised  share that the classifier calls the private class
  distance    Fréchet distance of the features; 0 for equal Gaussians
  increase    of that distance over FedAvg's (mechanism none), in percent
  kernel      unbiased kernel distance of the features, and its standard error
  nearest     RMS pixel distance to the nearest of the victims' images

Written to --output_dir: config.json, scores.jsonl (a line a round and attacker),
MECHANISM.png (real beside reconstructed, a row a class), scores.png (by round),
results.json, table.md, checkpoints/. A killed run goes on where it was with --resume.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax import models, prng
from fedsvp_jax.attacks import classifier, curious_clients
from fedsvp_jax.attacks.classifier import Classifier, FeatureExtractor
from fedsvp_jax.attacks.curious_clients import Attack, CuriousClients
from fedsvp_jax.attacks.scores import Examiner, evenly
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading, plan
from fedsvp_jax.report import figures, labels, read
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json
from fedsvp_jax.tree import cell_of

from . import image_grid, reconstruction_table
from .pieces import refuse_flags

DEFAULTS = {"num_rounds": 20, "epsilon": 0.3}


def define_flags() -> None:
    """The attack's own."""
    flags.DEFINE_list(
        "mechanisms",
        [],
        "Defences to compare, the first FedAvg (none) for the increase; default: "
        "the one of --mechanism.",
    )
    flags.DEFINE_enum(
        "attack_mode",
        "passive",
        ["passive", "active"],
        "passive: the attackers upload honestly; active: what they upload is trained "
        "on their own mislabelled images (Hitaj et al. 2017).",
    )
    flags.DEFINE_integer(
        "num_attackers",
        1,
        "Curious clients that attack, each on its own, side by side.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "attack_steps", 100, "Generator steps after every round.", lower_bound=1
    )
    flags.DEFINE_integer(
        "num_images", 500, "Reconstructions that a score is taken of.", lower_bound=3
    )
    flags.DEFINE_integer(
        "classifier_steps",
        600,
        "Training steps of the independent classifier, on 100 images each.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "inception_weights",
        None,
        "Inception-v3's weights (pytorch-fid's or torchvision's file): distances are "
        "then taken in its features, and are FID and KID with pytorch-fid's.",
    )


def defended_by(
    values: flags.FlagValues, config: ExperimentConfig
) -> list[ExperimentConfig]:
    """The settings under each mechanism that the flags name."""
    if values.mechanisms:
        refuse_flags(values, ["mechanism"], "mechanisms names those to compare")
    names = dict.fromkeys(values.mechanisms or [config.mechanism])
    return [resolve(dataclasses.replace(config, mechanism=name)) for name in names]


def trained_classifier(
    dataset: Dataset, folder: RunFolder, *, seed: int, num_clients: int, steps: int
) -> Classifier:
    """The independent classifier, kept beside the attack's checkpoints."""
    checkpointer = Checkpointer(folder.path / "checkpoints" / "classifier")
    try:
        # Of no client: their keys end below num_clients.
        key = prng.stream_key(prng.root_key(seed), prng.Stream.ATTACKER, num_clients)
        saved = checkpointer.restore(classifier.initial_params(dataset, key))
        if saved is not None:
            return Classifier(dataset.num_classes, saved[0])
        params = classifier.train_classifier(dataset, key=key, steps=steps)
        checkpointer.save(steps, params)
    finally:
        checkpointer.close()
    return Classifier(dataset.num_classes, params)


def references(
    examiner: Examiner, dataset: Dataset, private: int, num_images: int
) -> dict[str, dict[str, float]]:
    """What real images score: of the class but held out, and of other classes."""
    labels = dataset.test_labels
    found = {}
    for name, rows in (
        ("real images held out", np.flatnonzero(labels == private)),
        ("real images of other classes", np.flatnonzero(labels != private)),
    ):
        images = preprocessing.normalize(jnp.asarray(dataset.test_inputs[rows]))
        found[name] = examiner.score(evenly(images, num_images), private)._asdict()
    return found


def draw_scores(
    path: pathlib.Path, rows: Sequence[dict[str, Any]], distance: str
) -> None:
    """Recognised and distance by round, a line a mechanism (mean of its attackers)."""
    names = list(dict.fromkeys(row["mechanism"] for row in rows))

    def panel(axes: Any, score: str, label: str) -> None:
        for number, name in enumerate(names):
            by_round: dict[int, list[float]] = {}
            for row in rows:
                if row["mechanism"] == name:
                    by_round.setdefault(row["round"], []).append(row[score])
            means = [float(np.mean(values)) for values in by_round.values()]
            color = labels.OKABE_ITO[number % len(labels.OKABE_ITO)]
            dashes = figures.DASHES[number % len(figures.DASHES)]
            axes.plot([*by_round], means, label=name, color=color, linestyle=dashes)
        axes.set_xlabel("round")
        axes.set_title(label)

    figures.panels(
        path,
        [
            partial(panel, score="recognised", label="Share recognised"),
            partial(panel, score="frechet_distance", label=distance),
        ],
    )


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Every mechanism attacked by clients with the same data, latents and networks."""
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
        "mechanisms": [one.mechanism for one in configs],
        "attack_mode": attack.mode,
        "attack_steps": attack.steps,
        "num_attackers": attack.num_attackers,
        "num_images": attack.num_images,
        "classifier_steps": values.classifier_steps,
        "inception_sha256": None,
    }
    inception: FeatureExtractor | None = None
    if values.inception_weights:
        inception = models.load_inception(values.inception_weights)
        with open(values.inception_weights, "rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        chosen["inception_sha256"] = digest.hexdigest()
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
    for one in configs[1:]:  # refused before anything is written
        plan.mechanism_config(one, first.trainer.program.data)
    folder.start(settings, resume=values.resume)
    judge = trained_classifier(
        dataset,
        folder,
        seed=config.seed,
        num_clients=config.num_clients,
        steps=values.classifier_steps,
    )
    extractor = inception or judge
    examiner = Examiner(judge, extractor, real, num_images=attack.num_images)
    test = preprocessing.normalize(jnp.asarray(dataset.test_inputs))
    results: dict[str, Any] = {
        "settings": settings,
        "extractor": extractor.name,
        "classifier_accuracy": float(
            np.mean(judge.classify(test) == dataset.test_labels)
        ),
        "references": references(
            examiner, dataset, config.private_attribute, attack.num_images
        ),
        "mechanisms": [],
    }
    pictures = []
    for place, one in enumerate(configs):
        clients = first
        if place:
            clients = CuriousClients(
                one, attack, dataset, model=first.trainer.program.model
            )
        summary, images = curious_clients.run_mechanism(
            clients, examiner, classes, folder
        )
        results["mechanisms"].append(summary)
        pictures.append(folder.path / f"{one.mechanism}.png")
        image_grid.write_grid(
            pictures[-1],
            real,
            images,
            private=config.private_attribute,
            title=f"{config.dataset}, {one.mechanism}",
        )
    pictures.append(folder.path / "scores.png")
    draw_scores(
        pictures[-1],
        folder.rows(curious_clients.SCORES),
        reconstruction_table.head(results)[3],
    )
    write_json(folder.path / "results.json", results)
    read.write_text(
        folder.path / "table.md", reconstruction_table.markdown(results) + "\n"
    )
    print(reconstruction_table.plain_text(results))
    written = ["config.json", curious_clients.SCORES, "results.json", "table.md"]
    print("files:")
    for path in [*(folder.path / name for name in written), *pictures]:
        print(f"  {path}")
