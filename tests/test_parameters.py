"""No function of the core takes more than can be held in mind."""

import ast
import pathlib

import pytest

import fedsvp_jax

pytestmark = pytest.mark.across("how many parameters a function may have")

MOST = 8
OUTSIDE = (  # rooms around the core
    "attacks",
    "check",
    "datasets",
    "pretrained",
    "report",
)
# Public calls, flat on purpose: each argument is a setting that a user names.
FLAT = {
    "run/one_run.py train",
    "run/sweep.py sweep",
    "settings.py setting",
    "mechanisms/registry.py register_mechanism",
    "data/formats/table.py from_table",
}


def parameters(function: ast.FunctionDef) -> int:
    told = function.args
    named = [*told.posonlyargs, *told.args, *told.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in named)


def test_no_function_of_the_core_has_more_than_eight_parameters() -> None:
    root = pathlib.Path(fedsvp_jax.__file__).parent
    found = {
        f"{path.relative_to(root)} {node.name}"
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] not in OUTSIDE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and parameters(node) > MOST
    }
    assert found == FLAT
