"""Writes the measured parts of the documentation from what docs/results keeps.

  python -m experiments.pages
  python -m experiments.pages decisive attacks
  python -m experiments.pages attacks --keep=acgan_mnist=runs/acgan
  python -m experiments.pages --figure=pdf

Nothing is measured here. --keep adds or replaces the files of runs that the one page
that is named shows. Figures that kept results are enough for are drawn again; PDFs,
for a paper, lie beside the pictures. Grids of images and figures of single runs have no
kept results; the pages that show them name their commands.

A study is rows in docs/results and a module in WRITERS with

  rewrite(docs)               writes the page's blocks; returns its path, or paths
  draw(docs, kind)            draws its figures as svg, pdf or png, where it has any
  keep(name, folder, docs)    copies what the page needs of a run, where it takes any
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from absl import flags

from fedsvp_jax.report import figures

from . import command, docs_blocks, flag_values

WRITERS = {
    "attacks": "attack.docs_page",
    "data": "data_table",
    "data_value": "data_value.docs_page",
    "decisive": "decisive.docs_page",
    "features": "features.docs_page",
    "influence": "influence.docs_page",
    "mixed_baselines": "reproduce.mixed_baselines",
    "one_attribute": "one_attribute.docs_page",
    "own_data": "goal_table",
    "performance": "benchmark.docs_page",
    "guarantees": "guarantee_tables",
    "privacy": "disclosure_tables",
    "reproduction": "reproduce.tables",
    "shapley": "shapley.docs_page",
    "utility": "utility.docs_page",
}


def writer(name: str) -> ModuleType:
    """The module that writes a page."""
    return importlib.import_module(f"{__package__}.{WRITERS[name]}")


def written(name: str, docs: Path, kind: str = "svg") -> list[Path]:
    """Writes a page and its figures; returns their paths."""
    module = writer(name)
    pages = module.rewrite(docs)
    drawn = module.draw(docs, kind) if hasattr(module, "draw") else []
    return [*([pages] if isinstance(pages, Path) else pages), *drawn]


def keep(names: Sequence[str], kept: list[str], docs: Path) -> None:
    """Copies what a page needs of the runs NAME=FOLDER.

    Raises:
      ValueError: not one page is named, or it takes no runs.
    """
    takes = [name for name in names if hasattr(writer(name), "keep")]
    if len(names) != 1 or not takes:
        raise ValueError(
            "keep must stand beside one page that shows runs, got "
            f"{', '.join(names) or 'none'}"
        )
    for name, folder in flag_values.named_folders(kept).items():
        writer(takes[0]).keep(name, folder, docs)


def main(arguments: list[str]) -> None:
    """Keeps the runs that are named, and writes the pages."""
    names = arguments[1:]
    flag_values.refuse_unknown("page", names, WRITERS)
    if kept := flags.FLAGS.keep:
        keep(names, kept, docs_blocks.DOCS)
    for name in names or WRITERS:
        command.print_files(written(name, docs_blocks.DOCS, flags.FLAGS.figure))


if __name__ == "__main__":
    flags.DEFINE_enum("figure", "svg", figures.FORMATS, "Format of the figures.")
    flags.DEFINE_list("keep", [], "Runs to keep, NAME=FOLDER with commas between.")
    command.run(main, __doc__, takes_arguments=True)
