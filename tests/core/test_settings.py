"""How settings are declared: once each, with limits that are told in one sentence."""

import ast
import dataclasses
import math
import pathlib
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import fedsvp_jax
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import settings
from fedsvp_jax.core.settings import SettingError, Settings, setting
from fedsvp_jax.mechanisms import MechanismConfig, about, mechanism_names

PACKAGE = pathlib.Path(fedsvp_jax.__file__).parent
FIELDS = {field.name: field for field in dataclasses.fields(ExperimentConfig)}


def declarations() -> Iterator[tuple[str, str, bool]]:
    """(module, name, by `setting`) of every class field with a default.

    Attacks, models, `check` and single experiments have parameters of their own, which
    may share a name with a setting; what a run is made from may not.
    """
    apart = {"attacks", "check", "models", "round"}
    facts = {
        "participation.py",
        "base.py",
        "coalitions.py",
    }  # of a program, which no user sets
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name in apart or path.name in facts:
            continue
        tree = ast.parse(path.read_text())
        partials = [
            f"{ast.unparse(node.targets[0])}("
            for node in tree.body
            if isinstance(node, ast.Assign)
            and ast.unparse(node.value).startswith("partial(setting,")
        ]
        for node in ast.walk(tree):
            for field in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(field, ast.AnnAssign) and field.value is not None:
                    value = ast.unparse(field.value)
                    by_setting = value.startswith(("setting(", *partials))
                    yield str(path), ast.unparse(field.target), by_setting


def test_every_setting_has_its_default_and_its_limits_in_one_place() -> None:
    # A schema and what it is kept with say these of one table.
    of_tables = ("data/dataset.py", "data/tables/schema.py", "run/trained_model.py")
    made = [
        name
        for path, name, by_setting in declarations()
        if by_setting and not path.endswith(of_tables)
    ]
    assert sorted(made) == sorted(FIELDS)
    facts = {"schema", "classes", "test_fraction"}
    assert not [
        (path, name)
        for path, name, by_setting in declarations()
        if name in FIELDS and not by_setting
        if not (path.endswith(of_tables) and name in facts)
    ]


def test_every_setting_of_a_mechanism_is_a_setting_of_the_experiment() -> None:
    told = {field.name: field for field in dataclasses.fields(MechanismConfig)}
    facts = {"min_num_examples", "max_num_examples", "settings", "analytic_multiplier"}
    facts |= {"rows_per_person"}
    settings = (about(name).settings for name in mechanism_names())
    for cls in filter(None, settings):
        told |= {field.name: field for field in dataclasses.fields(cls)}
    for name, field in told.items():
        if name not in facts:
            assert field.metadata == FIELDS[name].metadata
            assert field.default == FIELDS[name].default


@dataclasses.dataclass(frozen=True)
class Toy(Settings):
    share: float = setting(0.5, "A share.", above=0, at_most=1)
    count: int = setting(1, "A count.", at_least=1)
    clip: float = setting(1.0, "A clip.", above=0, infinite=True)
    kind: str = setting("mean", "A kind.", choices=("mean", "median"))
    name: str | None = setting(None, "A name.")
    on: bool = setting(False, "A switch.")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 0.0}, "share must be greater than 0 and at most 1, got 0.0"),
        ({"share": 1.1}, "share must be greater than 0 and at most 1, got 1.1"),
        ({"share": math.nan}, "share must be a finite number, got nan"),
        ({"share": 1e-40}, "share must be within the device's 32 bits"),
        ({"count": 0}, "count must be at least 1, got 0"),
        ({"count": 2**31}, "count must be within the device's 32 bits, .* 2147483647"),
        ({"count": 2**70}, f"count must be .* 2147483647, got {2**70}$"),
        ({"clip": 10**400}, "clip must be within the device's 32 bits"),
        ({"clip": -1.0}, "clip must be greater than 0, got -1.0"),
        ({"kind": "medan"}, "kind must be one of mean, median, got 'medan' .did you"),
        ({"share": np.float32(2.0)}, "share must be greater than 0"),
        ({"share": -math.inf}, "share must be greater than 0"),
        ({"count": 10**400}, "count must be within the device's 32 bits"),
        ({"count": -(10**400)}, "count must be at least 1"),
        ({"share": "0.5"}, "share must be a number, got '0.5'"),
        ({"share": True}, "share must be a number, got True"),
        ({"share": None}, "share must be a number, got None"),
        ({"count": "5"}, "count must be an integer, got '5'"),
        ({"count": 5.5}, "count must be an integer, got 5.5"),
        ({"count": [5]}, r"count must be an integer, got \[5\]"),
        ({"name": 3}, "name must be a text, got 3"),
        ({"on": 1}, "on must be true or false, got 1"),
    ],
)
def test_a_value_outside_its_limits_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(SettingError, match=message) as refused:
        Toy(**changes)
    assert [refused.value.name] == list(changes)
    assert f"must be {refused.value.allowed}, got" in str(refused.value)
    elsewhere = pickle.loads(pickle.dumps(refused.value))  # from a worker, say
    assert str(elsewhere) == str(refused.value)


@pytest.mark.hole
def test_a_whole_number_has_whole_ends_and_all_that_is_wrong_is_told() -> None:
    """Seeds were said to go from 1.2e-38 to 2147483647; the first error hid others."""
    with pytest.raises(SettingError, match="32 bits, 0 to 2147483647, got") as one:
        ExperimentConfig(seed=2**31)
    assert "e-38" not in str(one.value)
    with pytest.raises(ValueError, match=r"clip must .*; kind must be") as two:
        Toy(clip=-1.0, kind="medan")
    assert "share" not in str(two.value)


def test_limits_themselves_and_infinity_are_taken() -> None:
    Toy(share=1.0, count=2**31 - 1, clip=math.inf)
    Toy(share=1, name="one", on=True)


def test_a_part_takes_the_fields_of_the_same_name() -> None:
    @dataclasses.dataclass(frozen=True)
    class Whole(Toy):
        other: int = 3

    whole = Whole(share=0.25, count=7)
    assert settings.part(Toy, whole) == Toy(share=0.25, count=7)
    assert settings.part(Toy, whole, count=2).count == 2
