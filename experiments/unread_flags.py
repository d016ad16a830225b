"""Flags that nothing reads are refused or noted, so that no number is ignored silently.

A flag that would be taken for a promise is refused: ε and relation of a mechanism with
noise that does not follow them. Flags that only another mechanism reads are noted once,
so that a script can loop over mechanisms with the same flags.
"""

import dataclasses
import sys
from collections.abc import Sequence

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.settings import missing_need

from .flag_values import refuse_flags

_PROMISES = frozenset({"epsilon", "calibration", "relation", "noise_trust"})


def refuse(
    values: flags.FlagValues, names: Sequence[str], config: ResolvedConfig
) -> None:
    """Refuses or notes the flags of the command line that nothing reads.

    Args:
      values: the command line's; a default, which nobody typed, is never refused.
      names: of the mechanisms that run, at least one.
      config: the settings, of one of them.

    Raises:
      ValueError: a flag would be taken for a promise that no mechanism reads, is what
        --solve=noise finds, or is read only together with another setting's value;
        names both.
    """
    if config.solve == "noise":
        why = "--solve=noise finds the noise for total_epsilon, the ε of the whole run"
        refuse_flags(values, {"epsilon", "epsilons"} & {*values}, why)
    ignored = []
    readers = f"mechanism{'s' if len(names) > 1 else ''} {', '.join(names)}"
    unread = frozenset.intersection(*map(mechanisms.unread_settings, names))
    for setting in sorted(unread):
        flag = setting if setting in values else f"{setting}s"  # a sweep's --epsilons
        if flag not in values or not values[flag].present:
            continue
        if setting in _PROMISES and set(names) != {"none"}:
            raise ValueError(
                f"--{flag} is not read by {readers}; remove it (total_epsilon is the ε "
                "of the whole run, and every claim names its own relation)"
            )
        ignored.append(f"--{flag}")
    if ignored:
        print(f"note: {', '.join(ignored)}: not read by {readers}", file=sys.stderr)
    for field in dataclasses.fields(config):
        is_typed = field.name in values and values[field.name].present
        if is_typed and (missing := missing_need(field, vars(config))):
            other, needed = missing
            choices = [f"--{other}={str(value).lower()}" for value in needed]
            with_what = "with " + " or ".join(choices or [f"--{other}"])
            if needed == (None,):
                with_what = f"without --{other}"
            raise ValueError(f"--{field.name} is only read {with_what}; remove it")
