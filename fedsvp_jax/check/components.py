"""Objects of an engine, which say what they are; a text shows only that they are."""

import ast
import contextlib
import functools
import inspect
import math
import numbers
import pathlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple


class Component(NamedTuple):
    """An object or a function of an engine.

    Attributes:
      name: of its class; "" where it is not understood.
      source: its path.
      values: its attributes, private ones too.
    """

    name: str
    source: str
    values: Mapping[str, Any]

    def number(self, name: str, **bounds: float) -> float:
        """A value that must be a number.

        Raises:
          ValueError: as `finite`.
        """
        return finite(self.source, name, self.values.get(name), **bounds)

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
        that has a method of its own, may do anything else, and is not understood.
    """
    kind = thing if inspect.isfunction(thing) else type(thing)
    path = f"{kind.__module__}.{kind.__qualname__}"
    values = getattr(thing, "__dict__", {})
    methods = (getattr(kind, name, None) for name in values)
    replaced = any(
        inspect.isroutine(method) and not isinstance(method, functools.cached_property)
        for method in methods
    )
    name = kind.__qualname__ if path in classes and not replaced else ""
    return Component(name, path, {key.lstrip("_"): values[key] for key in values})


def unknown(things: Iterable[Component]) -> tuple[str, ...]:
    """A sentence for each that is not understood."""
    return tuple(
        f"{thing.source} is no class that is known here, or has a method of its own"
        for thing in things
        if not thing.name
    )


def statements(file: pathlib.Path, *packages: str) -> tuple[str, ...]:
    """The statements of a Python file that name something of an engine; none is run.

    The names of its packages are followed through imports and assignments. The last
    line stands for all that is elsewhere.

    Raises:
      ValueError: it is no Python file.
    """
    names, lines = {*packages}, []
    # CPython's parser says MemoryError of brackets that nest too deep.
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        every = [node for node in nodes if isinstance(node, ast.stmt)]
        for statement in sorted(every, key=lambda node: node.lineno):
            line = ast.unparse(statement).partition("\n")[0]
            if names.isdisjoint(re.findall(r"\w+", line)):
                continue
            lines.append(f"{file.name}, line {statement.lineno}: {line}")
            match statement:
                case ast.Import(names=parts) | ast.ImportFrom(names=parts):
                    names.update(part.asname or part.name for part in parts)
                case ast.Assign(targets=targets):
                    names.update(
                        re.findall(r"\w+", " ".join(map(ast.unparse, targets)))
                    )
        return (*lines, f"{file.name}: what else runs, and may change the noise")
    raise ValueError(f"{file} is not a Python file that can be read")


def finite(
    source: str,
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """The value as a number.

    Raises:
      ValueError: it is none, not finite, or not in its range.
    """
    usual = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = float(value) if usual and abs(value) < 1e300 else math.nan
    if not (above < number and at_least <= number <= at_most):
        bounds = ((">", above), (">=", at_least), ("<=", at_most))
        limits = [
            f" {sign} {bound:g}" for sign, bound in bounds if math.isfinite(bound)
        ]
        raise ValueError(
            f"{name} of {source} must be a finite number{' and'.join(limits)}, "
            f"got {value!r}"
        )
    return number
