"""The declaration and the checks of a setting.

A setting is a field of a frozen dataclass, made by `setting`: its default, its limits
and its help are written there and nowhere else. Small dataclasses hold the settings of
one theme. `config.ExperimentConfig` inherits all of them, so a function that reads one
theme takes that theme's class, and a whole configuration can be handed to it.

A theme is declared beside the code that reads it: a mechanism's own settings in its
file, those of the data in data/, of the Shapley values in shapley/. Themes that many
rooms read are in common_settings.py.
"""

import dataclasses
import difflib
import inspect
import math
import numbers
import operator
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

MAX_ATTRIBUTES = 64
# Read only where clients estimate R: with worst_case they do not.
NEEDS_ESTIMATION = "contribution_release=raw|laplace|randomized_response"
# Linear layers on features, into which images are turned when they are loaded.
FEATURE_MODELS = ("scatter_linear", "scatter_channels_linear")
TABLE_MODELS = ("mlp", "logistic")  # that take vectors as they are
MODEL_NAMES = (
    *TABLE_MODELS,
    "small_cnn",
    "paper_cnn",
    "leaf_cnn",
    "resnet18",
    "resnet18_gn",
    *FEATURE_MODELS,
)
_LARGEST_INT = 2**31 - 1
_LARGEST_FLOAT, _LEAST_FLOAT = 3.4e38, 1.2e-38  # float32's normal numbers
# The squares of numbers below 1e-19 vanish in float32, and norms with them. A vector of
# 1e9 such numbers is up to 4e-15 long, which a clip of this size does not notice.
LEAST_CLIP = 1e-6


# Each limit in words, and the comparison that breaks it.
LIMITS: dict[str, tuple[str, Callable[[Any, float], Any]]] = {
    "at_least": ("at least", operator.lt),
    "above": ("greater than", operator.le),
    "at_most": ("at most", operator.gt),
    "below": ("less than", operator.ge),
}


_WORDS = {"None": None, "True": True}  # values of `needs` that are no text


def setting(
    default: Any,
    help: str,
    *,
    choices: Collection[str] | None = None,
    traced: bool = False,
    needs: str | None = None,
    infinite: bool = False,
    **limits: float,
) -> Any:
    """A setting: a field of a `Settings` class.

    Args:
      default: its value where none is given. None, which the field's type names too,
        where the data set decides (`config.resolve`) or where nothing is meant.
      help: its text in `--help`.
      choices: the allowed texts.
      traced: whether the cells of one compiled sweep may differ in it. Another value
        of a setting that is not traced is another program.
      needs: `other=value|value`: another setting, and those of its values with which
        this one is read. `other` alone: this one is read whenever the other is given
        and not 0. Otherwise the command line refuses the flag.
      infinite: whether infinity is allowed too.
      limits: of its numbers: at_least and at_most, or above and below, which are no
        allowed values themselves.
    """
    other, _, values = (needs or "").partition("=")
    readers = [_WORDS.get(value, value) for value in values.split("|") if value]
    metadata = {
        "help": help,
        "choices": choices,
        "limits": {LIMITS[name][0]: limit for name, limit in limits.items()},
        "infinite": infinite,
        "needs": (other, tuple(readers)) if needs else None,
        "pytree_node": traced,  # read by flax.struct.dataclass
    }
    return dataclasses.field(default=default, metadata=metadata)


class SettingError(ValueError):
    """A setting's own limits refuse its value.

    Attributes:
      name: of the setting.
      allowed: the allowed values, in words.
    """

    def __init__(self, name: str, allowed: str, got: object) -> None:
        super().__init__(name, allowed, got)  # what another process makes it from
        self.name, self.allowed = name, allowed

    def __str__(self) -> str:
        return "{} must be {}, got {}".format(*self.args)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Checks every setting when it is built; what is being traced passes unchecked.

    Raises:
      SettingError: a value is of another type than its setting, or outside its limits.
      ValueError: several are; it names them all.
    """

    def __post_init__(self) -> None:
        wrong = []
        for field in dataclasses.fields(self):
            if "limits" not in field.metadata:
                continue
            try:
                _check(field, getattr(self, field.name))
            except SettingError as error:
                wrong.append(error)
        if len(wrong) == 1:
            raise wrong[0]
        if wrong:
            raise ValueError("; ".join(map(str, wrong)))


def theme(cls: type[Settings], name: str) -> type[Settings]:
    """The class that declares the setting `name` of `cls`; its docstring is the theme.

    The docstring's first line is `Title: subject.`
    """
    return next(
        base for base in cls.__mro__ if name in vars(base).get("__annotations__", {})
    )


_KINDS = {
    bool: (bool, "true or false"),
    int: (int, "an integer"),
    float: (int | float, "a number"),
    str: (str, "a text"),
}


def kind(field: dataclasses.Field) -> Any:
    """A setting's type: bool, int, float or str; `float | None` -> float."""
    if isinstance(field.type, types.UnionType):
        members = [t for t in typing.get_args(field.type) if t is not type(None)]
        return members[0] if len(members) == 1 else None
    return field.type


def _check(field: dataclasses.Field, value: Any) -> None:
    """Refuses another type and other numbers; arrays, traced or not, pass."""
    meta, of_kind = field.metadata, kind(field)
    if value is None and field.default is None:
        return
    if of_kind in _KINDS:
        cls, words = _KINDS[of_kind]
        plain = isinstance(value, bool | int | float | str | list | tuple | None)
        fits = isinstance(value, cls) and isinstance(value, bool) == (cls is bool)
        if plain and not fits:
            raise SettingError(field.name, words, repr(value))
    if meta["choices"] is not None:
        if value not in meta["choices"]:
            raise unknown(field.name, value, meta["choices"])
        return
    if isinstance(value, bool) or not issubclass(type(value), numbers.Real):
        return
    limits, is_infinite = meta["limits"], value == math.inf
    if is_infinite and meta["infinite"]:
        return
    smallest, largest = _LEAST_FLOAT, _LARGEST_FLOAT
    if of_kind is int:
        largest = _LARGEST_INT
        smallest = limits.get("at least", -largest - 1)
    breaks = dict(LIMITS.values())
    if not is_infinite and (0 < value < _LEAST_FLOAT or value > largest):
        allowed = f"within the device's 32 bits, {smallest} to {largest}"
    elif any(breaks[name](value, limit) for name, limit in limits.items()):
        allowed = " and ".join(f"{name} {limit}" for name, limit in limits.items())
        if meta["infinite"] and limits.keys() & {"at most", "less than"}:
            allowed += ", or inf"
    elif is_infinite or value != value or value == -math.inf:
        allowed = "a finite number"
    else:
        return
    raise SettingError(field.name, allowed, value)


def unknown(name: str, value: Any, choices: Collection[str]) -> SettingError:
    """The error of a value that is none of the choices; it names the nearest one."""
    allowed = f"one of {', '.join(choices)}"
    return SettingError(name, allowed, f"{value!r}{nearest(value, choices)}")


def nearest(value: Any, choices: Collection[str]) -> str:
    """` (did you mean LOS?)` of the value los; nothing where no choice is near."""
    text = str(value)
    from .files import toml_beside  # and NumPy, which `fedsvp` alone does not need

    meant = toml_beside(__file__, "synonyms.toml").get(text.lower())
    near = [choice for choice in choices if choice.lower() in (text.lower(), meant)]
    near = near or difflib.get_close_matches(text, choices, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def missing_need(
    field: dataclasses.Field, settings: Mapping[str, Any]
) -> tuple[str, tuple[Any, ...]] | None:
    """The setting, and those of its values, without which `field` is not read here.

    Args:
      field: of a `Settings` class.
      settings: values by name.

    Returns:
      `needs` of the field where `settings` does not meet it, else None.
    """
    needs = field.metadata["needs"]
    if needs is None:
        return None
    other, readers = needs
    value = settings.get(other)
    is_met = value in readers if readers else value not in (None, 0)
    return None if is_met else needs


def by_class(name: str, text: str | None, num_classes: int) -> tuple[float, ...]:
    """The numbers of a setting that has one for each class; () where it is None.

    Raises:
      SettingError: they are not `num_classes` positive numbers.
    """
    if text is None:
        return ()
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = ()
    if len(numbers) != num_classes or not all(0 < n < math.inf for n in numbers):
        allowed = f"{num_classes} positive numbers with commas, one for each class"
        raise SettingError(name, allowed, repr(text))
    return numbers


Chosen = TypeVar("Chosen")


def part(cls: type[Chosen], config: Any, **fields: Any) -> Chosen:
    """The settings of `cls` as they stand in a configuration that has them too.

    Args:
      cls: a dataclass, or a named tuple.
      config: has a field for each field of `cls` that is not in `fields` and has no
        default of its own.
      fields: given instead.
    """
    names = inspect.signature(cls).parameters
    shared = {name: value for name, value in vars(config).items() if name in names}
    return cls(**shared | fields)
