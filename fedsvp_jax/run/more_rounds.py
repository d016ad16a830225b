"""Whether a run may go on to more rounds than it was started with.

It may where its first rounds are those that a longer run would have had, to the bit.
What follows the number of rounds T is refused: noise, promises, schedules.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation.program import Program
from fedsvp_jax.mechanisms import Mechanism, make_mechanism
from fedsvp_jax.mechanisms.base import uploads_of_rounds

# What follows T, and when: (is it so, in words)
_FOLLOWS: tuple[tuple[Callable[[ExperimentConfig], bool], str], ...] = (
    (lambda c: c.total_epsilon is not None, "the promise of total_epsilon is for all"),
    (lambda c: c.max_uploads is not None, "max_uploads limits the uploads of all"),
    (lambda c: c.influence_filter != "none", "the influence filter plans for all"),
    (lambda c: c.batches == "poisson", "the room for a Poisson batch follows all"),
    (
        lambda c: c.learning_rate_schedule == "cosine",
        "learning_rate_schedule=cosine falls over all",
    ),
)


def check(program: Program, before: int) -> None:
    """Refuses more rounds where the first ones would have been others.

    Args:
      program: of the longer run, of one cell.
      before: T of the run so far.

    Raises:
      ValueError: something follows T.
    """
    (config,) = program.configs
    told = f"num_rounds cannot grow from {before} to {config.num_rounds}"
    for follows, why in _FOLLOWS:
        if follows(config):
            raise ValueError(f"{told}: {why} {before} rounds; start a new run")
    settings = program.mechanism_configs[0]
    shorter = make_mechanism(
        config.mechanism,
        settings.replace(num_rounds=before),  # type: ignore[attr-defined]
    )
    played = [
        _played(mechanism, config.num_clients, before)
        for mechanism in (shorter, program.mechanism)
    ]
    same = jax.tree.map(partial(np.array_equal, equal_nan=True), *played)
    if not all(jax.tree.leaves(same)):
        raise ValueError(
            f"{told}: the noise of mechanism {config.mechanism} depends on the number "
            "of rounds; start a new run"
        )


def _played(mechanism: Mechanism, num_clients: int, num_rounds: int) -> Any:
    """The noise of an upload by round, and what the server makes of a model."""
    infos = uploads_of_rounds(mechanism, num_clients, range(num_rounds))
    if mechanism.server is None:
        return infos
    one = {"w": jnp.ones((1,), jnp.float32)}
    server = mechanism.server

    @jax.jit
    def served(round_num: jax.Array) -> Any:
        return server(
            one,
            one,
            mechanism.init(num_clients),
            key=jax.random.key(0),
            round_num=round_num,
            infos=jax.tree.map(lambda leaf: leaf[None], infos[0, 1.0]),
            valid=jnp.ones((1,), bool),
        )

    return infos, [served(np.int32(number)) for number in (0, num_rounds - 1)]
