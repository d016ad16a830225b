"""One command for everything: `fedsvp SUBCOMMAND --flag=value`.

A subcommand is the module of the same name, so `fedsvp train` and, in the repository,
`python -m experiments.train` are the same program. Nothing here imports JAX, so that
the overview is printed at once.
"""

import ast
import runpy
import sys
from pathlib import Path
from typing import NoReturn

import fedsvp_jax
from fedsvp_jax.core.settings import unknown

from . import messages, presets

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
_OVERVIEW = """\
fedsvp {version}: federated learning with differential privacy, guided by Shapley values
  fedsvp schema DATA.csv
  fedsvp train --data=DATA.csv --schema=schema.toml --goal=proved --total_epsilon=3 \
--output_dir=runs/a
Subcommands; fedsvp SUBCOMMAND --help describes its flags, --name=value:
{listed}
Documentation: {docs}"""


def purpose(name: str) -> str:
    """The first line of a subcommand's docstring; its module is not imported."""
    path = Path(__file__).with_name(f"{name}.py")
    if not path.exists():
        path = path.with_suffix("") / "__main__.py"
    return (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]


def overview() -> str:
    """One screen: a line for each subcommand."""
    width = 2 + max(map(len, MODULES))
    lines = {name: purpose(name) for name in MODULES}
    lines["presets"] = "Lists the presets of train and sweep; of a NAME, all its flags."
    listed = [f"  {name:<{width}}{line}" for name, line in lines.items()]
    return _OVERVIEW.format(
        version=fedsvp_jax.__version__, listed="\n".join(listed), docs=DOCS / "index.md"
    )


def preset_list() -> str:
    """A line for each preset: of train, then those of sweep."""
    lines = []
    for program in ("train", "sweep"):
        lines.append(f"fedsvp {program} --preset=NAME:")
        for name in presets.preset_names(program):
            title = presets.read_preset(program, name).title
            lines.append(f"  {name:<28}{title}")
    return "\n".join(lines)


def main() -> None:
    """Runs the subcommand that the command line names."""
    words = sys.argv[1:]
    with messages.quiet_pipe():
        match words:
            case [] | ["--help" | "-h" | "help"]:
                print(overview())
            case ["--version"]:
                print(f"fedsvp_jax {fedsvp_jax.__version__}")
            case ["presets"] | ["presets", "--help"]:
                print(preset_list())
            case ["presets", name]:
                if (text := presets.texts().get(name)) is None:
                    _refuse("preset", name, [*presets.texts()])
                print(text, end="")
            case [name, *_] if name in MODULES:
                del sys.argv[1]
                runpy.run_module(
                    f"{__package__}.{name}", run_name="__main__", alter_sys=True
                )
            case _:
                _refuse("subcommand", words[0], [*MODULES, "presets"])


def _refuse(what: str, word: str, choices: list[str]) -> NoReturn:
    print(f"error: {unknown(what, word, choices)}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
