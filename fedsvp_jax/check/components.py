"""Objects of an engine, which say what they are."""

import inspect
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from fedsvp_jax.core.settings import LIMITS


class Component(NamedTuple):
    """An object or a function of an engine.

    Attributes:
      source: its path.
      values: its attributes, private ones too.
      name: of its class; "" where it is not understood.
    """

    source: str
    values: Mapping[str, Any]
    name: str = ""

    def number(self, name: str, **bounds: float) -> float:
        """A value that must be a number.

        Args:
          name: of the value.
          bounds: of it, by the words of `LIMITS`.

        Raises:
          ValueError: it is none, not finite, or not in its range.
        """
        value: Any = self.values.get(name)
        usual = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not (
            usual
            and abs(value) < 1e300
            and not any(LIMITS[word][1](value, bounds[word]) for word in bounds)
        ):
            limits = [f"{LIMITS[word][0]} {bounds[word]:g}" for word in bounds]
            fault = f"got {value!r}" if name in self.values else "and is missing"
            raise ValueError(
                f"{name} of {self.source} must be a finite number "
                f"{' and '.join(limits)}, {fault}"
            )
        return float(value)

    def count(self, name: str) -> int:
        """A value that must be a whole number: part of a step would count as none.

        Raises:
          ValueError: it is no whole number >= 1.
        """
        number = self.number(name, at_least=1)
        if not number.is_integer():
            raise ValueError(
                f"{name} of {self.source} must be a whole number, got "
                f"{self.values[name]!r}"
            )
        return int(number)


def ask(thing: Any, classes: Collection[str]) -> Component:
    """The component of a live object, if it is of one of these very classes.

    Args:
      thing: an object, or a function.
      classes: "MODULE.CLASS". An object of a class that inherits from one of them, or
        that has a method of its own or of another module than its class's, may do
        anything else, and is not understood.
    """
    kind = thing if inspect.isfunction(thing) else type(thing)
    path = f"{kind.__module__}.{kind.__qualname__}"
    values = getattr(thing, "__dict__", {})
    replaced = any(inspect.isfunction(getattr(kind, name, None)) for name in values)
    replaced |= any(
        inspect.isfunction(method) and method.__module__ != parent.__module__
        for parent in type(thing).__mro__
        for name, method in vars(parent).items()
        if name not in ("__init__", "__replace__")  # which a decorator may make
    )
    name = kind.__qualname__ if path in classes and not replaced else ""
    return Component(path, {key.lstrip("_"): values[key] for key in values}, name)


def unknown(things: Iterable[Component]) -> tuple[str, ...]:
    """A sentence for each class that is not understood."""
    return tuple(
        dict.fromkeys(
            f"{thing.source} is no class that is known here, or has a method of its own"
            for thing in things
            if not thing.name
        )
    )
