"""Writes the measured tables of docs/attacks.md.

  python -m experiments.pages attacks --keep=acgan_mnist=runs/acgan

The tables are made from the files of docs/results/attacks, each the results.json of one
`experiments.attack` without its images. A table whose file is missing says that nothing
was measured. --keep adds or replaces a file, and the run's pictures in docs/images.
"""

import json
import pathlib
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

from fedsvp_jax.report.text_table import MISSING
from fedsvp_jax.run.files import write_json

from .. import docs_blocks
from . import (
    audit_results,
    canaries,
    inversion_results,
    membership_results,
    planted_bugs,
    reconstruction_results,
)

_RECONSTRUCTIONS = ("acgan_mnist", "acgan_mnist_eps03", "acgan_digits")


def keep(name: str, folder: pathlib.Path, docs_dir: pathlib.Path) -> None:
    """Copies a run's results to results/attacks/NAME.json, its pictures to images."""
    content = json.loads((folder / "results.json").read_text())
    content.pop("images", None)
    content.get("settings", {}).pop("data_dir", None)
    write_json(docs_dir / "results" / "attacks" / f"{name}.json", content)
    for picture in [*folder.glob("*.png"), *folder.glob("*.svg")]:
        if "curves" in content and picture.stem == "scores":
            continue  # drawn from the kept points
        shutil.copy(picture, docs_dir / "images" / f"{name}_{picture.name}")


def acgan_block(docs_dir: pathlib.Path, name: str, results: dict[str, Any]) -> str:
    """A run's table, the device, and its pictures (images/NAME_MECHANISM.png)."""
    text = f"{reconstruction_results.page(results)} {_device(results)}"
    titles = [row["mechanism"] for row in results["mechanisms"]]
    pictures = [(title, f"{name}_{title}.png") for title in titles]
    pictures += [("scores", f"{name}_scores.{ending}") for ending in ("svg", "png")]
    return "\n\n".join([text, *_linked(docs_dir, pictures)])


def final_block(docs_dir: pathlib.Path, data: str) -> str:
    """The table of many images, from one file a defence, and the pictures."""
    cells = reconstruction_results.kept_cells(docs_dir, data)
    if reconstruction_results.FEDAVG not in cells:
        return MISSING
    first = cells[reconstruction_results.FEDAVG]
    pictures = [
        (defence, f"acgan_{data}_{defence}_{row['mechanism']}.png")
        for defence, cell in cells.items()
        for row in cell["mechanisms"]
    ]
    pictures.append(("scores", f"acgan_{data}_scores.svg"))
    text = f"{reconstruction_results.final_page(cells)} {_device(first)}"
    return "\n\n".join([text, *_linked(docs_dir, pictures)])


def _device(results: dict[str, Any]) -> str:
    settings = results["settings"]
    return f"Device: {settings['device_kind']}, JAX {settings['versions']['jax']}."


def _linked(docs_dir: pathlib.Path, pictures: list[tuple[str, str]]) -> list[str]:
    """Links to those pictures, given by title and file, that docs/images holds."""
    return [
        f"![{title}](images/{file})"
        for title, file in pictures
        if (docs_dir / "images" / file).exists()
    ]


def _blocks(docs_dir: pathlib.Path) -> dict[str, Callable[[], str]]:
    """The functions that write the blocks, by block."""
    renderers: dict[str, Callable[[dict[str, Any]], str]] = {
        **{name: partial(acgan_block, docs_dir, name) for name in _RECONSTRUCTIONS},
        "membership": membership_results.page,
        "membership_mechanisms": membership_results.lira_page,
        "audit": audit_results.page,
        "planted_bugs": planted_bugs.page,
        "audit_sum": audit_results.page,
        "planted_bugs_sum": planted_bugs.page,
        "canaries": canaries.page,
        "gradient_inversion": inversion_results.page,
        "gradient_inversion_mnist": inversion_results.page,
    }
    results = docs_dir / "results" / "attacks"
    return {
        name: docs_blocks.made_from(results / f"{name}.json", table)
        for name, table in renderers.items()
    } | {
        f"acgan_{data}": partial(final_block, docs_dir, data)
        for data in reconstruction_results.PAPERS
    }


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Rewrites the blocks of the page; returns its path."""
    return docs_blocks.rewrite(docs_dir / "attacks.md", _blocks(docs_dir))


def draw(docs_dir: pathlib.Path, kind: str = "svg") -> list[pathlib.Path]:
    """Draws what kept results are enough for; returns the pictures' paths."""
    drawn = reconstruction_results.draw_kept(docs_dir, kind)
    for results in (membership_results, audit_results):
        name, figure = results.FIGURE
        kept = docs_dir / "results" / "attacks" / f"{name}.json"
        drawn.append(docs_dir / "images" / f"{name}_{figure}.{kind}")
        results.draw(drawn[-1], json.loads(kept.read_text())["rows"])
    return drawn
