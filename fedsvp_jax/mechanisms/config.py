"""The settings and the facts of the federation that a mechanism is built from."""

import dataclasses
from typing import TYPE_CHECKING, Any

import flax.struct
import jax
import numpy as np

from fedsvp_jax.core.common_settings import NoiseSettings, RoundSettings
from fedsvp_jax.core.settings import LEAST_CLIP, Settings, setting
from fedsvp_jax.core.structs import Number

_IS_QUERY = "clipping=attribute_records"


@dataclasses.dataclass(frozen=True)
class PrivateQuerySettings(Settings):
    """Private query: how the records of the private attribute are asked.

    A client trains on its public records alone, and asks these records one question,
    the mean of their clipped gradients, which the server remembers for the next round's
    training (`round.private_query`).
    """

    private_clip: float = setting(
        0.3,
        "C of the private query: bound on the gradient's norm of each record of the "
        "private attribute.",
        at_least=LEAST_CLIP,
        infinite=True,
        traced=True,
        needs=_IS_QUERY,
    )
    private_weight: float = setting(
        1.0,
        "λ: weight of the last round's released private gradient beside the public "
        "one in every local step; 0 leaves the private records out.",
        at_least=0,
        traced=True,
        needs=_IS_QUERY,
    )
    private_margin: float = setting(
        0.0,
        "τ: how far public training lowers the logits of the private classes, whose "
        "records it never sees, so that it pushes them down less. For private classes "
        "only (--attributes=class).",
        at_least=0,
        traced=True,
        needs=_IS_QUERY,
    )
    private_from: int = setting(
        0,
        "Rounds of public training before the first private query. An upload of these "
        "rounds says nothing of private records, costs nothing and is not counted by "
        "--max_uploads.",
        at_least=0,
        needs=_IS_QUERY,
    )
    private_layers: str = setting(
        "all",
        "What the private query moves: all layers, the last (the layer of the logits "
        "alone, so that the noise has as few dimensions as that layer), or of the last "
        "only the weights of the private classes' logits (classes); public training "
        "then leaves these as they are.",
        choices=("all", "last", "classes"),
        needs=_IS_QUERY,
    )


@flax.struct.dataclass(frozen=True)
class MechanismConfig(PrivateQuerySettings, NoiseSettings, RoundSettings):
    """Settings that every mechanism reads, facts of the federation, its own settings.

    A pytree: settings that are `traced` may differ between the cells of one compiled
    sweep, the others change the program. C (`l2_norm_clip`) bounds what the clipping
    clips: a gradient, the weights, or the update (there called S).

    Attributes:
      min_num_examples: () m, the smallest client's training examples; with clipping
        `attribute_records` those of the private attribute, of clients that hold any.
      max_num_examples: the largest client's training examples.
      rows_per_person: m, the most records of one person, where a person is the unit.
      settings: the mechanism's own settings, an instance of the class that it is
        registered with; `make_mechanism` takes that class's defaults for None.
      analytic_multiplier: () see `calibration.with_analytic_multiplier`.
    """

    min_num_examples: Number = 1.0
    max_num_examples: int = flax.struct.field(pytree_node=False, default=1)
    rows_per_person: int | None = flax.struct.field(pytree_node=False, default=None)
    settings: Any = None
    analytic_multiplier: Number | None = None

    if TYPE_CHECKING:  # never None here: `check_config`
        num_clients: int = 0
        cohort_size: int = 0
        batch_size: int = 0
        delta: float = 0.0
        l2_norm_clip: float = 0.0


_NEEDED = ("delta", "l2_norm_clip", "num_clients", "cohort_size", "batch_size")


def check_config(config: MechanismConfig) -> None:
    """Refuses a config that lacks a number, or whose numbers do not fit together.

    Raises:
      ValueError: one sentence that names the field, its value and what is allowed.
    """
    for name in _NEEDED:
        if getattr(config, name) is None:
            raise ValueError(f"{name} must be given to a mechanism, got None")
    if config.cohort_size > config.num_clients:
        raise ValueError(
            f"cohort_size must be at most num_clients = {config.num_clients}, "
            f"got {config.cohort_size}"
        )
    smallest = concrete(config.min_num_examples)
    if smallest is not None and np.any(smallest < 1):
        raise ValueError(
            f"min_num_examples must be at least 1, got {config.min_num_examples}"
        )


def concrete(value: Any) -> np.ndarray | None:
    """The number(s) as float64, or None for a tracer (which passes unchecked)."""
    if isinstance(value, jax.core.Tracer):
        return None
    return np.asarray(value, np.float64)
