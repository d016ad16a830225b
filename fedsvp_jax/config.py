"""All settings of a run in one object, and the defaults that depend on the data set."""

import dataclasses
import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from fedsvp_jax import mechanisms, shapley
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.core import optimizers
from fedsvp_jax.core.common_settings import (
    EvaluationSettings,
    ExecutionSettings,
    MechanismChoice,
    NoiseSettings,
    RoundSettings,
    TrainingSettings,
)
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.settings import FEATURE_MODELS, unknown
from fedsvp_jax.data import sources
from fedsvp_jax.data.attributes import AttributeSettings
from fedsvp_jax.data.dataset import Dataset, Facts, facts_of
from fedsvp_jax.data.datasets import DATA_SETS, DEFAULTS
from fedsvp_jax.data.partition import PartitionSettings
from fedsvp_jax.data.source_settings import DataSettings
from fedsvp_jax.data.train_validation import least_examples
from fedsvp_jax.influence.settings import CorruptionSettings, FilterSettings
from fedsvp_jax.mechanisms.config import PrivateQuerySettings


# The order of the parts is that of the settings, in config.json and in the help.
@dataclasses.dataclass(frozen=True)
class ExperimentConfig(
    ExecutionSettings,
    EvaluationSettings,
    FilterSettings,
    CorruptionSettings,
    PromiseSettings,
    mechanisms.BuiltInSettings,
    PrivateQuerySettings,
    NoiseSettings,
    MechanismChoice,
    optimizers.ServerSettings,
    optimizers.ClientSettings,
    TrainingSettings,
    RoundSettings,
    PartitionSettings,
    shapley.ShapleySettings,
    AttributeSettings,
    DataSettings,
):
    """Everything that decides a run's numbers, as a user writes it.

    A setting that is None where nothing was written follows the data set: `resolve`
    gives it a number. A mechanism from outside whose settings are new takes a subclass:
    `class MyConfig(ExperimentConfig, MySettings)`.
    """


class ResolvedConfig(ExperimentConfig):
    """The settings of a run without a gap: what everything but `resolve` takes.

    It tells a type checker which settings are never None any more, and so refuses a
    config that was not resolved. `resolve` alone makes one. While a program runs it is
    an object of the class that the user wrote, with the settings of a plugin too.
    """

    num_clients: int
    num_hbc_clients: int
    cohort_size: int
    batch_size: int
    learning_rate: float
    delta: float
    l2_norm_clip: float
    partition: str
    class_share: float
    num_attributes: int
    private_attribute: int
    model: str
    augment: bool
    server_learning_rate: float
    warmup_examples: int
    contributor_examples: int
    tester_examples: int
    vote_epsilon: float


# Defaults of data of one's own that follow from their size (`_of_size`).
SIZED = ("partition", "num_clients", "cohort_size", "num_hbc_clients", "batch_size")
OWN_DATA = ("npz", "csv", "store")


def defaults_of(name: str) -> Record:
    """The defaults of a published data set, or of data of one's own (`OWN_DATA`).

    Raises:
      ValueError: there is no such data set.
    """
    family = name.partition(":")[0]
    choices = (*DATA_SETS, *OWN_DATA)
    if family not in choices:
        raise unknown("dataset", name, (*choices, "tfds:NAME"))
    return DEFAULTS["common"] | DEFAULTS[family]


def check_resolved(config: ResolvedConfig) -> None:
    """Raises ValueError: `resolve` was left out, and no type checker was asked."""
    if any(getattr(config, name) is None for name in ResolvedConfig.__annotations__):
        raise ValueError(
            "config is not resolved: call fedsvp_jax.config.resolve(config) first"
        )


def _of_size(config: ExperimentConfig, facts: Facts) -> Record:
    """Defaults of `SIZED` for data of one's own: npz, csv, store.

    There are about 50 examples per client and at most 100 clients, none of whom is
    curious. A batch is a quarter of a client's training examples, at most 50. Where the
    examples have writers, a client is a writer who fills a batch, and a table has a
    client for each of these.
    """
    if facts.num_examples is None:
        return {}
    sizes, num_clients = facts.of_writers, config.num_clients
    by_writer = sizes is not None and config.partition in (None, "by_writer")
    if sizes is not None and by_writer:
        share = float(np.median(sizes))
    else:
        num_clients = num_clients or min(max(facts.num_examples // 50, 1), 100)
        share = facts.num_examples / num_clients
    batch = config.batch_size or min(max(int(config.train_fraction * share / 4), 1), 50)
    if sizes is not None and by_writer and num_clients is None:
        minimum = least_examples(config.dataset, batch, config.train_fraction)
        limit = None if config.dataset == "csv" else 100
        num_clients = max(len(sizes[sizes >= minimum][:limit]), 1)
    assert num_clients is not None
    return {
        "partition": "by_writer" if by_writer else "iid",
        "num_clients": num_clients,
        "cohort_size": min(10, num_clients),
        "num_hbc_clients": 0,
        "batch_size": batch,
    }


def _of_data(config: ExperimentConfig, facts: Facts | None) -> Record:
    """The defaults that follow from the data, of settings that are not given.

    Raises:
      ValueError: there is no class or category --private_category, or
        --private_attribute is another one.
    """
    sized = config.dataset in OWN_DATA
    needs_facts = config.private_category is not None
    needs_facts |= config.num_attributes is None and config.column is not None
    if facts is None:
        needed = sized and any(getattr(config, name) is None for name in SIZED)
        facts = sources.facts(config) if needed or needs_facts else Facts()
    defaults = _of_size(config, facts) if sized else {}
    categories = facts.categories.get(config.column or "")
    defaults["num_attributes"] = len(categories) if categories else 2
    if config.private_category is None:
        return defaults
    names: Sequence[str] | None = facts.class_names
    if config.column is not None:
        names = facts.categories.get(config.column)
    if names is None:
        raise ValueError(
            "private_category must be left out: classes and categories have no names "
            "here; give its number as private_attribute"
        )
    if config.private_category not in names:
        raise unknown("private_category", config.private_category, names)
    number = names.index(config.private_category)
    if config.private_attribute not in (None, number):
        raise ValueError(
            f"private_attribute must be {number}, the number of private_category "
            f"{config.private_category}, got {config.private_attribute}"
        )
    return defaults | {"private_attribute": number}


def resolve(config: ExperimentConfig, dataset: Dataset | None = None) -> ResolvedConfig:
    """Fills in the data set's defaults and checks the settings as a whole.

    Args:
      config: settings; None where a default is wanted.
      dataset: data that a Python program has in memory, whose size and names then
        decide in place of those of the file in `data_dir`.

    Raises:
      OSError: `data_dir` cannot be read.
      ValueError: in one sentence that names the setting, its value and what is
        allowed.
    """
    defaults = defaults_of(config.dataset)
    facts = None if dataset is None else facts_of(dataset)
    clients = config.num_clients or defaults["num_clients"]
    defaults["num_hbc_clients"] = clients // 10
    defaults |= _of_data(config, facts)
    if config.model in FEATURE_MODELS:
        defaults["augment"] = False
    defaults["delta"] = 1.0 / max(config.batch_size or defaults["batch_size"], 2)
    defaults["server_learning_rate"] = 1.0 if config.server_optimizer == "sgd" else 0.01
    unset = {
        name: value for name, value in defaults.items() if getattr(config, name) is None
    }
    config = cast(ResolvedConfig, dataclasses.replace(config, **unset))
    for name in ("cohort_size", "num_hbc_clients"):
        if getattr(config, name) > config.num_clients:
            raise ValueError(
                f"{name} must be at most num_clients = {config.num_clients}, got "
                f"{getattr(config, name)}"
            )
    if config.noise_bands > 1 and not optimizers.averages(config):
        raise ValueError(
            "noise_bands must be 1 unless server_optimizer is sgd, "
            "server_learning_rate 1 and server_momentum 0: the server adds the "
            "correlated noise after its step, so sums without noise would enter later "
            f"models; got {config.noise_bands}"
        )
    for name in ("client_momentum", "proximal_mu"):
        if config.local_steps == 1 and getattr(config, name):
            raise ValueError(
                f"{name} must be 0 with local_steps=1, since it acts from the second "
                f"step on, got {getattr(config, name):g}"
            )
    if config.cohorts == "cyclic":
        turns, remainder = divmod(config.num_clients, config.cohort_size)
        if remainder:
            raise ValueError(
                "cohorts=cyclic needs a num_clients that is a multiple of cohort_size "
                f"= {config.cohort_size}, got {config.num_clients}"
            )
        if config.max_uploads is None:  # nobody has more turns than that
            max_turns = math.ceil(config.num_rounds / turns)
            config = dataclasses.replace(config, max_uploads=max_turns)
    shapley.check_settings(config, config.num_attributes)
    names = mechanisms.mechanism_names()
    if config.mechanism not in names:
        raise unknown("mechanism", config.mechanism, names)
    if math.isinf(config.l2_norm_clip) and config.mechanism != "none":
        raise ValueError(
            f"l2_norm_clip must be finite for mechanism {config.mechanism}, got inf"
        )
    return config
