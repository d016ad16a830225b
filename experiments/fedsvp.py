"""One command for everything: `fedsvp SUBCOMMAND --flag=value`.

A subcommand is the module of the same name, so `fedsvp train` and, in the repository,
`python -m experiments.train` are the same program.
"""

import difflib
import runpy
import sys

import fedsvp_jax

from . import messages, presets, subcommands


def overview() -> str:
    """One screen: a line for each subcommand."""
    width = 2 + max(map(len, subcommands.MODULES))
    lines = {name: subcommands.purpose(name) for name in subcommands.MODULES}
    lines["presets"] = "Lists the presets of train and sweep, with one line each."
    listed = [f"  {name:<{width}}{line}" for name, line in lines.items()]
    return "\n".join(
        [
            f"fedsvp {fedsvp_jax.__version__}: federated learning with differential "
            "privacy, guided by Shapley values",
            "  fedsvp schema DATA.csv",
            "  fedsvp train --data=DATA.csv --schema=schema.toml --goal=proved "
            "--total_epsilon=3 --output_dir=runs/a",
            "Subcommands; fedsvp SUBCOMMAND --help describes its flags, --name=value:",
            *listed,
            f"Documentation: {subcommands.DOCS / 'index.md'}",
        ]
    )


def preset_list() -> str:
    """A line for each preset: of train, then those of sweep."""
    tables = {name: presets.read_preset(name).title for name in presets.preset_names()}
    width = 2 + max(map(len, [*tables, *presets.OF_TRAIN]))
    return "\n".join(
        [
            "fedsvp train --preset=NAME:",
            *(f"  {name:<{width}}{line}" for name, line in presets.OF_TRAIN.items()),
            "",
            "fedsvp sweep --preset=NAME:",
            *(f"  {name:<{width}}{title}" for name, title in tables.items()),
        ]
    )


def main() -> None:
    """Runs the subcommand that the command line names."""
    words = sys.argv[1:]
    with messages.quiet_pipe():
        match words:
            case [] | ["--help" | "-h" | "help"]:
                print(overview())
            case ["--version"]:
                print(f"fedsvp_jax {fedsvp_jax.__version__}")
            case ["presets"]:
                print(preset_list())
            case [name, *_] if name in subcommands.MODULES:
                del sys.argv[1]
                runpy.run_module(
                    subcommands.module(name), run_name="__main__", alter_sys=True
                )
            case _:
                print(f"error: {unknown(words[0])}", file=sys.stderr)
                sys.exit(2)


def unknown(word: str) -> str:
    """The sentence for a word that is no subcommand; names the nearest one."""
    names = [*subcommands.MODULES, "presets"]
    near = difflib.get_close_matches(word, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"{word!r} is no subcommand of fedsvp{hint}; `fedsvp` alone lists them"


if __name__ == "__main__":
    main()
