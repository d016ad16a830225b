"""Reads calls and their arguments from Python files, which are never run."""

import ast
import collections
import contextlib
import math
import operator
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_CASTS: dict[str, Callable[[Any], Any]] = {"float": float, "int": int, "bool": bool}


class _Unread(Exception):
    """A value that only running the code would tell."""


class Call(NamedTuple):
    """One call of a known function.

    Attributes:
      name: of the function, without its module.
      source: "NAME in FILE, line N".
      arguments: nodes by the parameter's name.
      values: reads a node.
      overrides: values that the user gives instead, by the parameter's name.
      more: whether it takes further arguments from a list or a dict.
    """

    name: str
    source: str
    arguments: Mapping[str, ast.expr]
    values: Callable[[ast.expr], Any]
    overrides: Mapping[str, float]
    more: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        """An argument's value, or the default where the call names none.

        Raises:
          ValueError: the value is not to be read without running the code.
        """
        if name in self.overrides:
            return self.overrides[name]
        if name not in self.arguments and not self.more:
            return default
        try:
            return self.values(self.arguments[name])
        except (_Unread, KeyError) as error:
            what = "in a dict or list" if isinstance(error, KeyError) else str(error)
            raise ValueError(
                f"{name} of {self.source} is {what}, which only running the code "
                f"would tell; give it by --set={name}=VALUE"
            ) from None

    def number(self, name: str, default: float | None = None, **bounds: float) -> float:
        """As `get`, of an argument that must be a number.

        Raises:
          ValueError: as `finite`.
        """
        return finite(self.source, name, self.get(name, default), **bounds)


def calls(
    file: pathlib.Path,
    functions: Mapping[str, str],
    *,
    config: Mapping[str, Any],
    overrides: Mapping[str, float],
) -> list[Call]:
    """The calls of some functions in a file, in their order.

    Args:
      file: a Python file.
      functions: names of positional parameters, in one text, by the function's name;
        "Class.method" for a method that is called on a class.
      config: what `run_config[KEY]` holds.
      overrides: as in `Call`.

    Raises:
      ValueError: it is no Python file.
    """
    tree = None
    # CPython's parser says MemoryError of brackets that nest too deep for its stack.
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(file.read_text(encoding="utf-8"))
    if tree is None:
        raise ValueError(f"{file} is not a Python file that can be read")
    aliases = {
        name.asname: name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    reader = _Values(tree, config)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _called(node.func, aliases)
        short = name.rpartition(".")[2]
        name = name if name in functions else short
        if name not in functions:
            continue
        source = f"{name} in {file.name}, line {node.lineno}"
        starred = any(isinstance(one, ast.Starred) for one in node.args)
        named = (
            {}
            if starred
            else dict(zip(functions[name].split(), node.args, strict=False))
        )
        named |= {word.arg: word.value for word in node.keywords if word.arg}
        more = starred or any(word.arg is None for word in node.keywords)
        call = Call(name, source, named, reader.read, overrides, more)
        found.append((node.lineno, call))
    return [call for _, call in sorted(found, key=lambda pair: pair[0])]


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
    try:
        usual = isinstance(value, int | float) and not isinstance(value, bool)
        number = float(value) if usual else math.nan
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if not (above < number < math.inf and at_least <= number <= at_most):
        limit = f" > {above:g}" if math.isfinite(above) else ""
        limit = f" >= {at_least:g}" if math.isfinite(at_least) else limit
        limit += f" and <= {at_most:g}" if math.isfinite(at_most) else ""
        raise ValueError(
            f"{name} of {source} must be a finite number{limit}, got {value!r}"
        )
    return number


def whole(source: str, name: str, value: Any) -> int:
    """The value as a count of what is done: part of a step would be counted as none.

    Raises:
      ValueError: it is no whole number >= 1.
    """
    number = finite(source, name, value, at_least=1)
    if not number.is_integer():
        raise ValueError(f"{name} of {source} must be a whole number, got {value!r}")
    return int(number)


def _called(function: ast.expr, aliases: Mapping[str, str]) -> str:
    """A function's name, behind its class or module and a dot; "" where it has none."""
    if isinstance(function, ast.Name):
        return aliases.get(function.id, function.id)
    if isinstance(function, ast.Attribute):
        owner = function.value
        if isinstance(owner, ast.Name | ast.Attribute):
            outer = _called(owner, aliases).rpartition(".")[2]
            return f"{outer}.{function.attr}"
        return function.attr
    return ""


class _Values:
    """Reads literals, arithmetic, names that are set once, and `run_config[KEY]`."""

    def __init__(self, tree: ast.Module, config: Mapping[str, Any]) -> None:
        self._config = config
        self._within: set[str] = set()
        self._given: dict[str, ast.expr] = {}
        self._times: collections.Counter[str] = collections.Counter()
        inside: dict[ast.stmt, str] = {
            one: node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for one in node.body
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                self._times[node.arg] += 1
            elif isinstance(node, ast.Name | ast.Attribute):
                if isinstance(node.ctx, ast.Store):
                    self._times[_last(node)] += 1
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                several = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                owner = f"{inside[node]}." if node in inside else ""
                for target in several:
                    if isinstance(target, ast.Name):
                        self._given[owner + target.id] = node.value

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.read(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                numbers = self.read(left), self.read(right)
                if all(isinstance(one, int | float) for one in numbers):
                    with contextlib.suppress(ArithmeticError):
                        return _OPERATIONS[type(op)](*numbers)
            case ast.Call(func=ast.Name(id=cast), args=[inner], keywords=[]):
                if cast in _CASTS:
                    with contextlib.suppress(ValueError, TypeError):
                        return _CASTS[cast](self.read(inner))
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                return self._name(f"{owner}.{name}", node)
            case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
                named = ast.unparse(inner).endswith("run_config")
                if named and str(key) in self._config:
                    return self._config[str(key)]
        raise _Unread(ast.unparse(node))

    def _name(self, name: str, node: ast.expr) -> Any:
        """A name's value, if nothing of that name is set twice in the file."""
        once = self._times[name.rpartition(".")[2]] == 1
        if not once or name not in self._given or name in self._within:
            raise _Unread(ast.unparse(node))
        self._within.add(name)
        try:
            return self.read(self._given[name])
        finally:
            self._within.discard(name)


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr
