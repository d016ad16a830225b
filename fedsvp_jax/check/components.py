"""Objects of an engine: live ones say what they are, a text shows some of them."""

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
      source: where it is made.
      values: its attributes, private ones too, or the arguments that a text shows.
    """

    name: str
    source: str
    values: Mapping[str, Any]

    def number(self, name: str, default: Any = None, **bounds: float) -> float:
        """A value that must be a number.

        Raises:
          ValueError: as `finite`.
        """
        return finite(self.source, name, self.values.get(name, default), **bounds)


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


def read_calls(
    file: pathlib.Path, engine: str, functions: Mapping[str, str]
) -> tuple[list[Component], tuple[str, ...]]:
    """The calls of a Python file that its text shows in full; it is never run.

    Args:
      file: a Python file.
      engine: its package, whose names are followed through imports and assignments.
      functions: parameters that are read, by the function's name, in one text: those
        that a call may give by position, and further ones.

    Returns:
      Calls whose parameters are literals, or are such calls; and every other statement
      that names something of the engine, with a last line for all that is elsewhere.

    Raises:
      ValueError: it is no Python file.
    """
    objects: dict[str, Any] = {name: Component(name, name, {}) for name in functions}
    names = {engine, *functions, *" ".join(functions.values()).split()}
    calls, lines = [], []

    def value(node: Any) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.List():
                return [value(part) for part in node.elts]
            case ast.Name() if objects.get(node.id):
                return objects[node.id]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                parameters = functions[name].split()
                arguments = dict(zip(parameters, node.args, strict=False))
                arguments |= {word.arg or "**": word.value for word in node.keywords}
                read = {*parameters, "**"} & {*arguments}
                values = {key: value(arguments[key]) for key in sorted(read)}
                return Component(
                    name, f"{name} in {file.name}, line {node.lineno}", values
                )
        raise KeyError("only running the code would tell")

    # CPython's parser says MemoryError of brackets that nest too deep.
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        text = file.read_text(encoding="utf-8")
        nodes = [
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)
        ]
        for statement in sorted(nodes, key=lambda node: node.lineno):
            line = ast.unparse(statement).partition("\n")[0]
            if names.isdisjoint(re.findall(r"\w+", line)):
                continue
            seen = None
            with contextlib.suppress(KeyError):
                seen = value(getattr(statement, "value", None))
            understood = isinstance(seen, Component)
            match statement:
                case ast.Import(names=parts) | ast.ImportFrom(names=parts):
                    names.update(part.asname or part.name for part in parts)
                    understood = all(part.name in functions for part in parts)
                case ast.Assign(targets=[target]):
                    names.update(re.findall(r"\w+", ast.unparse(target)))
                    objects[ast.unparse(target)] = seen if understood else None
                case ast.Expr(value=ast.Constant()):
                    understood = True
            if isinstance(seen, Component):
                calls.append(seen)
            if not understood:
                lines.append(f"{file.name}, line {statement.lineno}: {line}")
        return calls, (*lines, f"{file.name}: what else runs, and may change this")
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


def count(source: str, name: str, value: Any) -> int:
    """The value as a whole number, since part of a step would count as none.

    Raises:
      ValueError: it is no whole number >= 1.
    """
    number = finite(source, name, value, at_least=1)
    if not number.is_integer():
        raise ValueError(f"{name} of {source} must be a whole number, got {value!r}")
    return int(number)
