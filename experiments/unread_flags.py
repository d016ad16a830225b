"""Flags that nothing reads are refused or noted, so that no number is ignored silently.

A flag that would be taken for a promise is refused: ε and relation of a mechanism with
noise that does not follow them. Where other mechanisms of a sweep read it, it is noted,
and so are other flags that no mechanism reads, so that a script can loop over
mechanisms with the same flags.
"""

import dataclasses
import sys
from collections.abc import Sequence

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.settings import missing_need

from .flag_values import refuse_flags

# What is taken for a promise, and what else its refusal says.
_PROMISES = {
    "epsilon": " (total_epsilon is the ε of the whole run)",
    "calibration": "",
    "relation": " (it has one of its own, which its claims name)",
    "noise_trust": "",
}


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
        solved = {mechanisms.about(name).noise_setting for name in names} & {*values}
        why = "--solve=noise finds the noise for total_epsilon, the ε of the whole run"
        refuse_flags(values, solved, why)
    ignored: dict[str, list[str]] = {}
    unread = {name: mechanisms.unread_settings(name) for name in names}
    for setting in sorted(frozenset.union(*unread.values())):
        flag = setting if setting in values else f"{setting}s"  # a sweep's --epsilons
        if flag not in values or not values[flag].present:
            continue
        without = [name for name in names if setting in unread[name]]
        by = f"not read by mechanism{'s' * (len(without) > 1)} {', '.join(without)}"
        if setting in _PROMISES and {*without} != {"none"}:
            if without == [*names]:
                raise ValueError(f"--{flag} is {by}; remove it{_PROMISES[setting]}")
        elif without != [*names]:
            continue
        ignored.setdefault(by, []).append(f"--{flag}")
    for by, listed in ignored.items():
        print(f"note: {', '.join(listed)}: {by}", file=sys.stderr)
    for field in dataclasses.fields(config):
        if field.name not in values or not values[field.name].present:
            continue
        if missing := missing_need(field, vars(config)):
            other, needed = missing
            choices = [f"--{other}={str(value).lower()}" for value in needed]
            with_what = "with " + " or ".join(choices or [f"--{other}"])
            if needed == (None,):
                with_what = f"without --{other}"
            raise ValueError(f"--{field.name} is only read {with_what}; remove it")
