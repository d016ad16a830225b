"""No function of the core takes more than can be held in mind."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

import fedsvp_jax

pytestmark = pytest.mark.across("how many parameters a function may have")

MOST = 8
OUTSIDE = (  # rooms around the core
    "attacks",
    "baselines",
    "check",
    "datasets",
    "engines",
    "estimators",
    "influence",
    "features",
    "report",
    "store",
    "tables",
)
# What is handed every setting of a run; other functions take a theme or two. All but
# `build`, which they share, are calls of a user.
WHOLE = {
    "config.py resolve",
    "deploy/policy.py make_policy",
    "engine/own_loop.py make_round",
    "federation/program.py build",
    "run/one_run.py train",
    "run/sweep.py sweep",
}


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The core's functions, with the path of their module."""
    root = pathlib.Path(fedsvp_jax.__file__).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] not in OUTSIDE:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    yield str(path.relative_to(root)), node


def parameters(function: ast.FunctionDef) -> int:
    told = function.args
    named = [*told.posonlyargs, *told.args, *told.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in named)


def test_no_function_of_the_core_has_more_than_eight_parameters() -> None:
    found = {f"{path} {f.name}" for path, f in functions() if parameters(f) > MOST}
    assert not found


def test_few_functions_of_the_core_are_handed_all_settings() -> None:
    whole = {
        f"{path} {function.name}"
        for path, function in functions()
        for one in (*function.args.args, *function.args.kwonlyargs)
        if one.annotation and "ExperimentConfig" in ast.unparse(one.annotation)
    }
    assert whole == WHOLE
