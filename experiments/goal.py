"""--goal of `fedsvp train`: settings for a table or images, all but ε.

`proved` refuses a table whose schema was read off the records. `trial` takes such a
table, and its claims are nominal then.

- unit = "row" or "person": every client runs DP-SGD, one step per round, on a logistic
  model, and adds all of the noise itself: against the server too (P15, P21). A step
  takes all rows of a client, and the learning rate follows the noise (`steps`), from
  public counts alone. For images it is the same on scattering coefficients, which
  nobody's data decided, with steps of their own. Noise of tables is in whole numbers
  (`has_whole_steps`).
- unit = "client": clipped updates, of which the cohort shares the noise by secure
  aggregation: against other clients, not against the server's aggregator.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from absl import flags

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import routes

from . import command

_MOST_ROWS = 4096  # in a step
_ROUNDS = 60, 240  # at least, and at most
_FASTEST = 0.2  # learning rate of the mean gradient, in less than the most rounds
_MOVED = 0.25  # by so much, at most, the noise of the run moves a weight
_OWN = toml_beside(__file__, "goal.toml")
_PROMISE = routes.PROMISE | _OWN["promise"]
_ROWS = routes.ROWS | _OWN["rows"]


def settings(
    goal: str, values: flags.FlagValues, data: Dataset | None = None
) -> Record:
    """Settings for the flags that are not named.

    Args:
      goal: proved or trial.
      values: the command line's.
      data: the data set that they name, where it is read already.

    Raises:
      OSError: the data or the schema cannot be read.
      ValueError: ε is not promised, the data are no table, one group of the rows is
        to be hidden, or the schema is not confirmed.
    """
    from fedsvp_jax.data import sources

    if values.total_epsilon is None:
        raise ValueError(
            f"goal {goal} needs total_epsilon, the ε of the whole run (epsilon is that "
            "of one upload, and is solved for)"
        )
    if values.dataset == "store":
        raise ValueError(f"goal {goal} is for tables and images in memory, got store")
    values.set_default("mechanism", _PROMISE["mechanism"])
    for setting in _OWN["of_one_group"]:
        name, _, value = setting.partition("=")
        if values[name].value == value if value else values[name].present:
            raise ValueError(
                f"goal {goal} hides every row, and --{setting} speaks of one group of "
                "them: leave it or --goal out; where it is public who belongs to the "
                "group, --mechanism=gaussian --clipping=attribute_records "
                "--solve=noise in the place of --goal hides that group alone: compare "
                "it with leaving the group out (docs/useful_model.md)"
            )
    config = command.unresolved(values)
    if data is None:
        data = sources.load(config.dataset, config.data_dir, config)
    sizes = training_sizes(data, config.num_clients or 1)
    values.set_default("colluders", default_colluders(len(sizes)))
    if has_whole_steps(data, sizes) and not any(
        values[name].present for name in _OWN["of_steps"]
    ):
        values.set_default("noise_sampler", "discrete")
    config = command.unresolved(values)
    if goal == "proved" and data.from_records:
        entries = "; ".join(data.from_records)
        how = (
            f"check each in it, then `fedsvp schema --confirm={values.schema}`"
            if values.schema
            else "`fedsvp schema DATA.csv` drafts one"
        )
        raise ValueError(
            f"goal proved needs a schema that is stated without the records; "
            f"{len(data.from_records)} entries were read off them ({entries}): {how}; "
            "--goal=trial goes on with nominal claims"
        )
    route = route_settings(
        config,
        data,
        None if values["num_rounds"].using_default_value else config.num_rounds,
    )
    return route | {"secret_noise": not values["seed"].present}


def default_colluders(clients: int) -> int:
    """A third: so many of the clients of a sum are away or curious, if nobody says."""
    return max(1, min(2, clients - 1), clients // 3)


def has_whole_steps(data: Dataset, sizes: np.ndarray) -> bool:
    """Whether a step takes all rows of a client, so that noise can be whole numbers.

    Their proof covers the number format (P17), and real sites draw them, too. Images,
    and clients of more rows than a step takes, have noise in float32.
    """
    takes_all = data.train_inputs.ndim == 2 and sizes.max() <= _MOST_ROWS
    return takes_all or getattr(data.schema, "unit", None) == "client"


class Steps(NamedTuple):
    """The steps of the route, from public counts.

    Attributes:
      batch_size: B; all rows of a client of so many, or fewer.
      learning_rate: of the first round; it falls to 0 by cosine.
      noise: standard deviation of the noise on the mean gradient, of all steps
        together; what the trust models differ in.
      num_rounds: T.
    """

    batch_size: int
    learning_rate: float
    noise: float
    num_rounds: int


def steps(
    config: ExperimentConfig,
    data: Dataset,
    sizes: np.ndarray,
    num_rounds: int | None = None,
) -> Steps:
    """Steps of all rows, at a learning rate that keeps the noise of the run small.

    With z for one step of all rows, client i of n_i rows uploads η/B times the sum of
    its clipped gradients plus noise of std √T·z·C. The average of weights p is then η/B
    Σ p_i·min(n_i, B) of the mean gradient, so η is divided by that sum over B. T steps
    together tell the mean gradient up to s = z·C·‖p‖ / Σ p_i·min(n_i, B), which needs
    no T: rounds are free where all rows are in every step. Where sums are secure,
    ‖p‖ is 1/√(K(K − h)) and p_i = 1/K. With momentum m the weights go T·η/(1 − m)
    times the mean gradient, half of it as η falls to 0 by cosine, which averages the
    noise of the last rounds as averaged iterates would. So the noise moves a weight,
    along which the loss is flat, by s·T·η/(2(1 − m)) at most: T·η keeps it at `_MOVED`.
    Less ε, fewer rows, more clients: less is learned, and the probabilities stay near
    those of the classes' shares.

    T is what `_FASTEST` needs for that, within `_ROUNDS`: fewer are too few for columns
    of narrow range (BUILD_NOTES.md). Only in the most rounds is η larger, up to what
    momentum keeps stable (Polyak 1964), 2(1 + m)/L. L = C·√(q + 1)/2 bounds the steps'
    Hessian: its part by the logits is 1/2 at most, and of its two vectors of q columns
    and a 1 one is clipped to C.

    Args:
      config: names ε of the run, at δ = 1e-5, and whom it trusts; h are `colluders`.
      data: of q columns, each a number in [−1, 1] or a category; z hides all rows of a
        person at once where a person is the unit.
      sizes: (K,) training rows of the clients.
      num_rounds: T, where somebody chose it.
    """
    from fedsvp_jax.mechanisms.calibration import analytic_multiplier

    clients = len(sizes)
    limit = math.inf if config.noise_sampler == "discrete" else _MOST_ROWS  # P17
    batch_size = int(min(sizes.max(), limit))
    weights = sizes / sizes.sum()
    norm = float(np.linalg.norm(weights))
    if config.noise_trust == "secure_aggregation":
        weights = np.full(clients, 1 / clients)
        norm = 1 / math.sqrt(clients * max(clients - config.colluders, 1))
    rows = float(weights @ np.minimum(sizes, batch_size))
    clip, momentum = _ROWS["l2_norm_clip"], _ROWS["server_momentum"]
    assert config.total_epsilon is not None
    z = float(analytic_multiplier(config.total_epsilon, _PROMISE["delta"]))
    noise = z * clip * norm / rows * (data.rows_per_person or 1)
    length = 2 * _MOVED * (1 - momentum) / noise  # T·η
    num_rounds = num_rounds or int(np.clip(length / _FASTEST, *_ROUNDS))
    fastest = _FASTEST
    if num_rounds >= _ROUNDS[1]:
        features = getattr(data.schema, "features", {})
        columns = len(features or data.train_inputs[0])
        columns += sum(len(column.knots) for column in features.values())
        fastest = max(fastest, 4 * (1 + momentum) / (clip * math.sqrt(columns + 1)))
    return Steps(
        batch_size,
        min(fastest, length / num_rounds) * batch_size / rows,
        noise,
        num_rounds,
    )


def training_sizes(
    data: Dataset, num_clients: int, by_writer: bool = True
) -> np.ndarray:
    """(K,) the training rows of the clients, from the public numbers of rows."""
    if by_writer and data.train_writers is not None:
        return np.bincount(data.train_writers)
    return np.array([*map(len, np.array_split(data.train_labels, num_clients))])


def stated_sizes(clients: int, examples: int, largest: int) -> list[int]:
    """The training rows of clients of which one has the most, and all others as many.

    Raises:
      ValueError: these numbers of rows do not add up.
    """
    rest = (examples - largest + np.arange(clients - 1)) // max(clients - 1, 1)
    sizes = [largest, *rest[::-1]]
    if sum(sizes) != examples or min(sizes) < 1 or max(sizes) > largest:
        raise ValueError(
            f"num_examples must be those of all {clients} sites together, of which one "
            f"has max_num_examples = {largest}, got {examples}"
        )
    return sizes


def route_settings(
    config: ExperimentConfig, data: Dataset, num_rounds: int | None = None
) -> Record:
    """What the route sets for a table, or for images.

    Args:
      config: not resolved; names the data set, ε of the run and whom it trusts, and
        may name clients.
      data: the data set that it names.
      num_rounds: T, where somebody chose it.
    """
    from fedsvp_jax.config import resolve

    changes = _OWN["single"]
    if data.train_writers is None:
        changes = changes | {
            "num_clients": config.num_clients or 1,
            "partition": config.partition or "iid",
        }
    resolved = resolve(dataclasses.replace(config, **changes), dataset=data)
    clients = resolved.num_clients
    sizes = training_sizes(data, clients, resolved.partition == "by_writer")
    settings = _PROMISE | {
        "num_clients": clients,
        "cohort_size": clients,
        "partition": resolved.partition,
    }
    if config.noise_sampler == "discrete":
        settings |= _OWN["whole_numbers"]
    rows = len(data.train_labels) / clients
    if getattr(data.schema, "unit", None) == "client":
        batch_size = max(1, min(round(rows / 8), 512))
        return settings | _OWN["clients"] | {"batch_size": batch_size}
    if data.train_inputs.ndim > 2:
        channels = "_channels" if data.train_inputs.shape[-1] == 3 else ""
        return settings | {
            **_ROWS,
            **_OWN["images"],
            "model": f"scatter{channels}_linear",
            "batch_size": max(1, min(round(rows / 15), _MOST_ROWS)),
        }
    chosen = steps(config, data, sizes, num_rounds)._asdict()
    del chosen["noise"]
    if shares := getattr(data.schema, "shares", ()):
        settings["class_shares"] = ",".join(map(repr, shares))
    return settings | _ROWS | _OWN["tables"] | chosen
