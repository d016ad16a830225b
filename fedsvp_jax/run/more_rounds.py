"""Whether a run may go on to more rounds than it was started with.

It may where its first rounds are those that a longer run would have had, to the bit.
What follows the number of rounds T is refused: noise, promises, schedules.
"""

from fedsvp_jax.federation.program import Program
from fedsvp_jax.federation.run_digest import follows_num_rounds


def check(program: Program, before: int) -> None:
    """Refuses more rounds where the first ones would have been others.

    Args:
      program: of the longer run, of one cell.
      before: T of the run so far.

    Raises:
      ValueError: something follows T.
    """
    (config,) = program.configs
    why = follows_num_rounds(config, program.mechanism)
    if why is not None:
        raise ValueError(
            f"num_rounds cannot grow from {before} to {config.num_rounds}: {why}; "
            "start a new run"
        )
