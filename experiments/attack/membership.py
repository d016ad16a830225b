"""Membership inference: was an example in some client's training data?

The attacker sees the last round's global model, as every client and any observer does,
and knows labelled examples and all settings. For each example it asks whether some
client trained on it.

--membership_shadows federations with different seeds are cells of one sweep. They share
the --membership_examples examples in question, and each client trains on a random
--train_fraction of its part, so an example is used by about half of the federations.
Each federation is attacked in turn. The likelihood-ratio attack (LiRA) uses the other
federations as models that the attacker trained itself; the loss threshold needs no
other models.

The federations run without noise, and under --mechanism, or each of --mechanisms, at
each of --membership_epsilons, or at --epsilon. The models are made to remember: few
examples, many local epochs, and a fifth of random labels, which can only be memorised.
Beside them stands the highest TPR that ε of all rounds allows anybody. AUC is the mean
over the attacked federations. TPR at a small FPR is taken over the scores of all
federations together. Both have a 95 % interval by a jackknife over the federations.

  fedsvp attack --attack=membership --dataset=digits \\
      --output_dir=runs/membership

A piece of the work is the sweep of a mechanism. The ROC curves are in results.json.

With --run=FOLDER nothing is trained: the loss threshold is tried on the model of a run.
LiRA needs models with and without each example, which --config=FOLDER/config.json in
the place of --run trains.
Members are the training examples of the clients that uploaded, others the test
examples; of either up to 19, drawn at random, are not tried, so that 20 groups are
equal. The interval of AUC is a jackknife's over these groups, that of a TPR Clopper and
Pearson's. A FPR that the others are too few for has no TPR.

  fedsvp attack --attack=membership --run=runs/a --output_dir=runs/a_attacked

A sweep keeps no model. A cell's is that of the run with its settings:

  fedsvp train --config=SWEEP/config.json --mechanism=nbafl \\
      --epsilon=.5 --seed=0 --output_dir=runs/a
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags
from scipy import stats

from fedsvp_jax.accounting import claims
from fedsvp_jax.accounting.views import SEEN
from fedsvp_jax.attacks import membership
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.prng import Stream
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.core.structs import Split
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.train_validation import dealt
from fedsvp_jax.federation import build, federated_data, loading
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.models.evaluation import outputs_for
from fedsvp_jax.report import guarantees
from fedsvp_jax.report.read import read_run
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.sweep import SweepPlan
from fedsvp_jax.run.trained_model import load_model
from fedsvp_jax.run.trainer import Trainer

from .. import flag_values, printed
from . import SETTINGS
from .work import Work

LABEL_NOISE = 0.2  # share of the examples whose label is drawn at random
_PLACES = {"data_dir", "schema", "plugin"}  # of what may have moved since a run
_GROUPS = 20  # of examples, for the intervals of one model
ROC_POINTS = np.concatenate([[0.0], np.logspace(-4, 0, 81)])  # false positive rates


def subset(data: Dataset, count: int, label_noise: float, seed: int) -> Dataset:
    """`count` random training examples, a share of them with random labels."""
    rng = np.random.default_rng((seed, Stream.CANARY))
    rows = np.sort(rng.permutation(len(data.train_labels))[:count])
    labels = data.train_labels[rows]
    noisy = rng.permutation(count)[: round(label_noise * count)]
    labels[noisy] = rng.integers(data.num_classes, size=len(noisy))
    return dataclasses.replace(
        data,
        train_inputs=data.train_inputs[rows],
        train_labels=labels,
        train_writers=None,
        columns={},
        test_columns={},
    )


def members(split: Split, num_examples: int) -> np.ndarray:
    """(cells, n) bool: whether some client of a cell trains on an example."""
    cells, num_clients = split.num_train.shape
    member = np.zeros((cells, num_examples), bool)
    clients, examples = dealt(split.train, split.num_train)
    member[clients // num_clients, examples] = True
    return member


def attack_sweep(configs: Sequence[ResolvedConfig], data: Dataset) -> list[Record]:
    """Trains the cells and attacks their models after the last round.

    Args:
      configs: the cells of one mechanism; cells of the same ε are adjacent.
      data: the examples in question are its training examples.

    Returns:
      One row per ε and attack.
    """
    shadows = len({config.seed for config in configs})
    rounds, mechanism = range(configs[0].num_rounds), configs[0].mechanism
    trainer = Trainer(
        build(configs, data), placement=Placement(cell_chunk_size=shadows)
    )
    program = trainer.program
    member = members(program.data.split, len(data.train_labels))
    inputs = jnp.asarray(data.train_inputs)
    true_labels = jnp.asarray(data.train_labels)

    @jax.jit
    @jax.vmap
    def scored(params: Any, stats: Any) -> tuple[jax.Array, jax.Array]:
        logits = outputs_for(program.model, params, stats, inputs)
        right = jnp.argmax(logits, axis=-1) == true_labels
        return membership.confidences(logits, true_labels), right

    state = trainer.initial_state()
    for number in progress_bar(rounds, mechanism, unit="round", disable=None):
        state, metrics = trainer.advance(state, number, 1)
    phi, right = jax.device_get(scored(*state.weights))
    rows = []
    for start in range(0, len(configs), shadows):
        cells = slice(start, start + shadows)
        claim = claims.of_run(program.accounts[start])
        for name in membership.SCORES:
            accuracy = np.mean(metrics.test_accuracy[-1, cells])
            scores = _scores(name, phi[cells], right[cells], member[cells], accuracy)
            rows.append({"mechanism": mechanism, **claim, **scores})
    return rows


def _scores(
    attack: str, phi: np.ndarray, right: np.ndarray, member: np.ndarray, test: Any
) -> Record:
    """A row's numbers, of models by examples, and the accuracy on the test set."""
    roc = membership.roc(attack, phi, member)
    fpr, tpr = roc.pop("curve")
    return {
        "attack": attack,
        **roc,
        "members": member.sum(),
        "others": (~member).sum(),
        "accuracy_members": right[member].mean(),
        "accuracy_others": right[~member].mean(),
        "test_accuracy": test,
        "tpr_at": np.interp(ROC_POINTS, fpr, tpr),
    }


def attack_run(folder: str, config: ResolvedConfig, data: Dataset) -> list[Record]:
    """One row: the loss threshold on the model of a run.

    Equal groups of examples stand for the models of `membership.roc`; the interval of a
    TPR is Clopper and Pearson's, at the threshold that the non-members set. The claim
    is against an observer, of as many copies of a record as any row counts.

    Args:
      folder: the run's.
      config: its settings.
      data: its data set.

    Raises:
      ValueError: the folder holds no run, or one of other or too few data.
    """
    trained, files = load_model(folder), read_run(folder)
    federation = federated_data.federate([config], data)
    if trained.settings["data_fingerprint"] != data.fingerprint:
        raise ValueError(f"run {folder} had other data: name them by --data_dir")
    uploaded = np.unique([row["client"] for row in files.clients])
    split = jax.tree.map(lambda leaf: leaf[:, uploaded], federation.split)
    train, test = federation.examples, federation.test
    (trained_on,) = members(split, len(train.labels))
    rng, parts = np.random.default_rng(0), []
    for examples, mask in ((train, trained_on), (test, test.labels >= 0)):
        rows = rng.permutation(np.flatnonzero(mask))
        if len(rows) < _GROUPS:
            raise ValueError(
                f"run {folder} has fewer than {_GROUPS} examples of a kind"
            )
        rows = rows[len(rows) % _GROUPS :].reshape(_GROUPS, -1)
        outputs = trained.outputs(np.asarray(examples.inputs)[rows.ravel()])
        logits, labels = jnp.asarray(outputs), examples.labels[rows.ravel()]
        columns = (
            membership.confidences(logits, labels),
            logits.argmax(-1) == labels,
            np.full(rows.size, examples is train),
        )
        parts.append([np.reshape(column, rows.shape) for column in columns])
    phi, right, member = map(np.hstack, zip(*parts, strict=True))
    claim = claims.NOTHING
    for bound in guarantees.strongest([files.summary]):  # the most copies come last
        if bound["adversary"] == SEEN["observer"][0]:
            claim = bound
    scores = _scores("loss", phi, right, member, right[~member].mean())
    for level, share in scores["tpr"].items():
        count = scores["members"]
        exact = stats.binomtest(round(share * count), count).proportion_ci()
        scores["tpr_low"][level], scores["tpr_high"][level] = exact
    return [{"mechanism": config.mechanism, **claim, **scores}]


def prepare(values: flags.FlagValues, config: ResolvedConfig) -> Work:
    """The federations without noise, then those of the mechanisms; or a run's model."""
    data = loading.load_dataset(config)
    if values.run is None:
        settings, pieces = _sweeps(values, config, data)
    else:
        names = {*vars(config), *SETTINGS["membership"]["flags"], "mechanisms"}
        flag_values.refuse_flags(
            values,
            sorted(names - _PLACES),
            "--run attacks the one model of a run as it is, by the loss threshold; "
            "LiRA needs models with and without each example, which "
            "--config=RUN/config.json in the place of --run trains",
        )
        settings = recorded_settings(config, data)
        pieces = {"run": partial(attack_run, values.run, config, data)}

    def finish(rows_by_piece: Record, folder: pathlib.Path) -> Record:
        rows = [row for rows in rows_by_piece.values() for row in rows]
        printed.print_rows("attack_membership.txt", rows, folder, run=values.run)
        return {"false_positive_rates": ROC_POINTS, "rows": rows}

    return Work(data, settings, pieces, finish)


def _sweeps(
    values: flags.FlagValues, config: ResolvedConfig, full: Dataset
) -> tuple[Record, Record]:
    """Settings and pieces: a sweep of each mechanism."""
    if values.membership_examples > len(full.train_labels):
        raise ValueError(
            f"membership_examples must be at most {len(full.train_labels)}, got "
            f"{values.membership_examples}"
        )
    data = subset(full, values.membership_examples, LABEL_NOISE, config.seed)
    texts = values.membership_epsilons
    if values["epsilon"].present:
        why = "epsilon is its one value"
        flag_values.refuse_flags(values, ["membership_epsilons"], why)
        texts = [values.epsilon]
    plan = SweepPlan(
        mechanisms=tuple(
            dict.fromkeys(("none", *(values.mechanisms or [config.mechanism])))
        ),
        epsilons=flag_values.numbers("membership_epsilons", texts),
        seeds=tuple(range(config.seed, config.seed + values.membership_shadows)),
    )
    sweeps = {name: plan.cells(config, name) for name in plan.mechanisms}
    for configs in sweeps.values():  # what cannot run is refused first
        Trainer(build(configs, data))
    settings = recorded_settings(config, data) | dataclasses.asdict(plan)
    return settings | {"membership_label_noise": LABEL_NOISE}, {
        name: partial(attack_sweep, configs, data) for name, configs in sweeps.items()
    }
