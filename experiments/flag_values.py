"""Checks of flags that absl cannot make."""

from collections.abc import Iterable, Sequence

from absl import flags


def numbers(flag: str, texts: Sequence[str]) -> tuple[float, ...]:
    """The numbers of a flag that takes a list, each once, in their order.

    Raises:
      ValueError: a text is no number, or there is none.
    """
    try:
        values = tuple(dict.fromkeys(map(float, texts)))
    except ValueError:
        values = ()
    if not values:
        raise ValueError(
            f"{flag} must be numbers with commas between them, got {','.join(texts)!r}"
        )
    return values


def refuse_flags(values: flags.FlagValues, names: Iterable[str], reason: str) -> None:
    """Refuses flags that an experiment would not read.

    Raises:
      ValueError: one of them is on the command line.
    """
    for name in names:
        if values[name].present:
            raise ValueError(f"{name} must be left out: {reason}")
