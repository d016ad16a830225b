"""The subcommands of `fedsvp`: the experiments that users start, by name.

Nothing here imports JAX, so that the overview is printed at once.
"""

import ast
import importlib.util
from pathlib import Path

# In the order of the overview.
MODULES = (
    "schema",
    "plan",
    "train",
    "sweep",
    "merge",
    "predict",
    "report",
    "check",
    "site",
    "ledger",
    "attack",
    "demo",
    "build_store",
    "benchmark",
)
# Of an installed package the pages lie beside the experiments, too.
DOCS = Path(__file__).parents[1] / "docs"


def module(name: str) -> str:
    """The module that `python -m` takes for a subcommand."""
    return f"{__package__}.{name}"


def purpose(name: str) -> str:
    """The first line of a subcommand's docstring; its module is not imported."""
    spec = importlib.util.find_spec(module(name))
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin)
    if spec.submodule_search_locations:
        path = path.with_name("__main__.py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
