"""Flags that nothing reads are refused or noted, so that no number is ignored silently.

A flag that would be taken for a promise is refused: ε and relation of a mechanism with
noise that does not follow them. Flags that only another mechanism reads are noted once,
so that a script can loop over mechanisms with the same flags.
"""

import dataclasses
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.settings import missing_need

_PROMISES = frozenset({"epsilon", "calibration", "relation", "noise_trust"})


def refuse_unread(
    values: flags.FlagValues,
    names: Sequence[str],
    *,
    flag_names: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
    """Refuses or notes a flag of the command line that none of the mechanisms reads.

    Args:
      values: the command line's; a default, which nobody typed, is never refused.
      names: of the mechanisms that run, at least one.
      flag_names: the flags whose name is not their setting's, by setting.

    Raises:
      ValueError: it would be taken for a promise; names the flag and the mechanisms.
    """
    ignored = []
    readers = "mechanism" if len(names) == 1 else "mechanisms"
    readers += f" {', '.join(names)}"
    unread = frozenset.intersection(*map(mechanisms.unread_settings, names))
    for setting in sorted(unread):
        flag = flag_names.get(setting, setting)
        if flag not in values or not values[flag].present:
            continue
        if setting not in _PROMISES or set(names) == {"none"}:
            ignored.append(f"--{flag}")
            continue
        raise ValueError(f"--{flag} is not read by {readers}; remove it")
    if ignored:
        print(f"note: {', '.join(ignored)}: not read by {readers}", file=sys.stderr)


def refuse_unneeded(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Refuses a flag that is read only together with another setting's value.

    Raises:
      ValueError: names the flag and what it is read with.
    """
    for field in dataclasses.fields(config):
        typed = field.name in values and values[field.name].present
        missing = missing_need(field, vars(config)) if typed else None
        if missing is None:
            continue
        other, readers = missing
        alternatives = " or ".join(f"--{other}={_typed(value)}" for value in readers)
        raise ValueError(
            f"--{field.name} is only read with {alternatives or f'--{other}'}; "
            "remove it"
        )


def _typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
