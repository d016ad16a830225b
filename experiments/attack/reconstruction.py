"""A curious client reconstructs images of the class that it does not hold.

Each of --num_attackers honest-but-curious clients holds no image of the private class,
takes part in the federation, sees every global model and knows all settings.

Between rounds it trains a generator to make images that the global model assigns to the
private class and that a discriminator cannot tell from the attacker's own images
(docs/attacks.md). It uploads honestly. What ε of all rounds allows anybody is a share
of guesses about a record: no ε limits what is learned of a whole class.

An independent classifier is trained on the real data. Distances are taken between its
features of --num_images reconstructions and as many images of the victims:
  recognised         share of reconstructions that the classifier assigns to the class
  Fréchet distance   between the features; 0 for equal Gaussians
  increase           of that distance over FedAvg's (mechanism none), in percent
  nearest            RMS pixel distance to the nearest of the victims' images

A piece of the work is a mechanism. In reconstructed.html are images of the private
class, real and under each mechanism.
"""

import dataclasses
import pathlib
from functools import cache, partial

import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax.accounting import claims
from fedsvp_jax.attacks import curious_clients
from fedsvp_jax.attacks.reconstruction import AttackPlan
from fedsvp_jax.attacks.scores import evenly, make_examiner, train_classifier
from fedsvp_jax.config import ResolvedConfig, resolve
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation import build, federated_data, loading, plan
from fedsvp_jax.report import page
from fedsvp_jax.run.trainer import Trainer

from .. import flag_values, printed
from .work import Work

_IN_A_ROW = 8  # images in a row of the page


def prepare(values: flags.FlagValues, config: ResolvedConfig) -> Work:
    """Every mechanism with the same data, latents and networks."""
    if values.mechanisms:
        flag_values.refuse_flags(
            values, ["mechanism"], "mechanisms names those to attack"
        )
    configs = {
        name: resolve(dataclasses.replace(config, mechanism=name))
        for name in values.mechanisms or [config.mechanism]
    }
    for defence in configs.values():
        plan.make_configured_mechanism(defence)
    dataset = loading.load_dataset(config)
    ids = curious_clients.attacker_ids(config, values.num_attackers, dataset)
    private = config.private_attribute
    attack = AttackPlan(
        dataset.example_shape, dataset.num_classes, private, values.attack_steps
    )
    split = cell_of(federated_data.federate([config], dataset).split, 0)
    real = curious_clients.victims_images(dataset, split, ids, private)
    settings = plan.recorded_settings(config, dataset) | {"mechanisms": [*configs]}
    del settings["mechanism"]

    steps = values.classifier_steps
    judge = cache(partial(train_classifier, dataset, seed=config.seed, steps=steps))

    examiner = cache(lambda: make_examiner(judge(), real, private, values.num_images))

    def attack_mechanism(defence: ResolvedConfig) -> Record:
        trainer = Trainer(build([defence], dataset))
        claim = claims.of_run(trainer.program.accounts[0])
        row = curious_clients.attacked_federation(
            trainer, defence, attack, ids, examiner(), values.num_images
        )
        row["pictures"] = row["pictures"][:_IN_A_ROW]
        return {"mechanism": defence.mechanism} | claim | row

    def finish(rows: Record, folder: pathlib.Path) -> Record:
        pictures = {"real": real[:_IN_A_ROW]}
        pictures |= {name: row.pop("pictures") for name, row in rows.items()}
        pixels = {
            name: np.rint(127.5 * np.add(images, 1)).astype(int).tolist()
            for name, images in pictures.items()
        }
        page.write(folder / "reconstructed.html", "pictures.html", pictures=pixels)
        test = preprocessing.normalize(jnp.asarray(dataset.test_inputs))
        held_out = dataset.test_labels == private
        references = {
            name: examiner()(evenly(test[mask], values.num_images))._asdict()
            for name, mask in (
                ("real images held out", held_out),
                ("real images of other classes", ~held_out),
            )
        }
        printed.print_rows(
            "attack_reconstruction.txt",
            [
                *rows.values(),
                *({"mechanism": name} | row for name, row in references.items()),
            ],
            folder,
            before=rows.get("none"),
        )
        return {
            "classifier_accuracy": np.mean(judge()(test)[1] == dataset.test_labels),
            "references": references,
            "mechanisms": [*rows.values()],
        }

    return Work(
        dataset,
        settings,
        pieces={
            name: partial(attack_mechanism, defence)
            for name, defence in configs.items()
        },
        finish=finish,
    )
