"""--goal of `fedsvp train`: settings for a table or images, all but ε.

`proved` refuses a table whose schema was read off the records. `trial` is the same with
such a schema, so its claims are nominal. The defaults were chosen by trials on flchain,
breast cancer and Adult (docs/own_data.md); no ε counts that choice for these.

- unit = "row" or "person": every client runs DP-SGD with Poisson batches, one step a
  round, on a logistic model, and adds all of the noise itself: against the server too
  (P15, P21). For images it is the same on scattering coefficients, which nobody's data
  decided.
- unit = "client": clipped updates, of which the cohort shares the noise by secure
  aggregation: against other clients, not against the server's aggregator.
"""

import dataclasses
from typing import Any

from absl import flags

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.source_settings import DataSettings, TableSettings

GOALS = ("proved", "trial")
_ROUNDS = 60
_PROMISE = {
    "mechanism": "gaussian",
    "relation": "add_remove",
    "delta": 1e-5,
    "total_accounting": "pld",
    "solve": "noise",
    "num_attributes": 1,
    "split": "by_position",
    "train_fraction": 0.99,
    "model": "logistic",
    "num_rounds": _ROUNDS,
    "eval_every": 10,
}
_ROWS = {
    "sensitivity": "per_example",
    "batches": "poisson",
    "local_steps": 1,
    "l2_norm_clip": 2.0,
    "learning_rate": 0.1,
    "server_momentum": 0.9,
}
_CLIENTS = {
    "sensitivity": "update_clip",
    "noise_trust": "secure_aggregation",
    "local_epochs": 1,
    "l2_norm_clip": 0.5,
    "num_rounds": 20,
}
_IMAGES = {  # as a row of experiments/studies/features, with fewer and larger steps
    "l2_norm_clip": 0.1,
    "learning_rate": 4.0,
    "num_rounds": 100,
}
_STREAMED = ("store",)  # whose clients are on disk
_OF_ONE_GROUP = ("attributes", "private_attribute", "private_category")


def settings(goal: str, values: flags.FlagValues) -> dict[str, Any]:
    """Settings for the flags that are not named.

    Args:
      goal: of `GOALS`.
      values: the command line's.

    Raises:
      OSError: the data or the schema cannot be read.
      ValueError: ε is not promised, the data are no table, one group of the rows is
        to be hidden, or the schema is not confirmed.
    """
    from fedsvp_jax.data import sources

    if values.total_epsilon is None:
        raise ValueError(f"goal {goal} needs total_epsilon, the promise of the run")
    if values.dataset in _STREAMED:
        raise ValueError(
            f"goal {goal} is for tables and images in memory, got {values.dataset}"
        )
    of_group = [name for name in _OF_ONE_GROUP if values[name].present]
    if values["sensitivity"].value == "attribute_records":
        of_group.append("sensitivity=attribute_records")
    if of_group:
        raise ValueError(
            f"goal {goal} hides every row, and --{of_group[0]} speaks of one group of "
            "them: leave it out; or, where it is public who belongs to the group, hide "
            "that group alone by --mechanism=gaussian --sensitivity=attribute_records "
            "--solve=noise in the place of --goal, and compare it with leaving the "
            "group out (docs/useful_model.md)"
        )
    names = [field.name for field in dataclasses.fields(TableSettings)]
    names += ["dataset", "data_dir", "num_clients", "partition"]
    chosen: dict[str, Any] = {name: values[name].value for name in names}
    config = ExperimentConfig(**chosen)
    data = sources.load(config.dataset, config.data_dir, config)
    if goal == "proved" and data.from_records:
        entries = "; ".join(data.from_records)
        how = "`fedsvp schema DATA.csv` drafts one"
        if values.schema:
            how = f"check each in it, then `fedsvp schema --confirm={values.schema}`"
        raise ValueError(
            f"goal proved needs a schema that is stated without the records; "
            f"{len(data.from_records)} entries were read off them ({entries}): {how}; "
            "--goal=trial goes on with nominal claims"
        )
    return route_settings(config, data)


def route_settings(config: ExperimentConfig, data: Dataset) -> dict[str, Any]:
    """What the route sets for a table, or for images.

    Args:
      config: not resolved; names the data set, and may name clients.
      data: the data set that it names.
    """
    from fedsvp_jax.config import resolve

    by_client = data.schema is not None and data.schema.unit == "client"
    if data.train_writers is None and config.num_clients is None:
        config = dataclasses.replace(config, num_clients=1)
    single: dict[str, Any] = {
        "cohort_size": 1,
        "num_hbc_clients": 0,
        "partition": config.partition,
    }
    if data.train_writers is None:
        single["partition"] = config.partition or "iid"
    config = resolve(dataclasses.replace(config, **single), dataset=data)
    clients = config.num_clients
    settings = _PROMISE | (_CLIENTS if by_client else _ROWS)
    size = len(data.train_labels) / clients
    share, limit = 8, 512  # a batch is a part of the rows, and no more than so many
    if data.train_inputs.ndim > 2:
        channels = "_channels" if data.train_inputs.shape[-1] == 3 else ""
        settings |= _IMAGES | {"model": f"scatter{channels}_linear"}
        share, limit = 15, 4096
    return settings | {
        "num_clients": clients,
        "cohort_size": clients,
        "num_hbc_clients": 0,
        "partition": config.partition,
        "batch_size": max(1, min(round(size / share), limit)),
    }


def route(config: ExperimentConfig, unit: str) -> str:
    """Names the route and says how it was chosen, in a line."""
    if config.clip.in_steps:
        name = f"DP-SGD in every client with Poisson batches (unit: {unit})"
    else:
        name = "clipped updates, noise shared by secure aggregation (unit: client)"
    single_client = (
        "" if config.num_clients > 1 else "; no column names clients, so one has all"
    )
    return f"route: {name}, model {config.model}, by fixed defaults{single_client}"


def reference(config: ExperimentConfig) -> dict[str, Any]:
    """The settings of FedAvg on the same clients, which hides nothing."""
    names = [field.name for field in dataclasses.fields(DataSettings)]
    names += ["model", "num_attributes", "num_clients", "cohort_size", "seed"]
    names += ["num_hbc_clients", "partition", "split", "train_fraction"]
    settings = {name: getattr(config, name) for name in names}
    return settings | {
        "mechanism": "none",
        "batch_size": 32,
        "num_rounds": 30,
        "eval_every": 30,
    }
