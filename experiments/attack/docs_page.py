"""Writes the measured tables of docs/attacks.md.

  python -m experiments.attack.docs_page --keep_attacks=acgan_mnist=runs/acgan

The tables are made from the files of docs/results/attacks, each the results.json of one
`experiments.attack` without its images. A table whose file is missing says that nothing
was measured. --keep_attacks adds or replaces a file, and the run's pictures in
docs/images.
"""

import json
import pathlib
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

from absl import flags

from fedsvp_jax.run.folder import write_json

from .. import command, docs_blocks
from . import (
    audit_results,
    canaries,
    inversion_results,
    membership_results,
    planted_bugs,
    reconstruction_results,
)

flags.DEFINE_string(
    "attack_pages_dir", "docs", "Folder that holds attacks.md and results/."
)

flags.DEFINE_list(
    "keep_attacks",
    [],
    "Runs whose results are copied to docs/results/attacks/NAME.json, as NAME=FOLDER "
    "with commas between them.",
)

_RECONSTRUCTIONS = ("acgan_mnist", "acgan_mnist_eps03", "acgan_digits")


def keep(name: str, folder: pathlib.Path, docs_dir: pathlib.Path) -> None:
    """Copies a run's results to results/attacks/NAME.json, its pictures to images."""
    content = json.loads((folder / "results.json").read_text())
    content.pop("images", None)
    content.get("settings", {}).pop("data_dir", None)
    write_json(docs_dir / "results" / "attacks" / f"{name}.json", content)
    for picture in [*folder.glob("*.png"), *folder.glob("*.svg")]:
        shutil.copy(picture, docs_dir / "images" / f"{name}_{picture.name}")


def acgan_block(docs_dir: pathlib.Path, name: str, results: dict[str, Any]) -> str:
    """A run's table, the device, and its pictures (images/NAME_MECHANISM.png)."""
    settings = results["settings"]
    versions = settings["versions"]
    paragraphs = [
        f"{reconstruction_results.page(results)} Device: "
        f"{settings['device_kind']}, JAX {versions['jax']}."
    ]
    pictures = [f"{row['mechanism']}.png" for row in results["mechanisms"]]
    for picture in [*pictures, "scores.svg", "scores.png"]:
        path = f"images/{name}_{picture}"
        if (docs_dir / path).exists():
            paragraphs.append(f"![{picture.split('.')[0]}]({path})")
    return "\n\n".join(paragraphs)


def _blocks(docs_dir: pathlib.Path) -> dict[str, Callable[[], str]]:
    """The functions that write the blocks, by block."""
    renderers: dict[str, Callable[[dict[str, Any]], str]] = {
        **{name: partial(acgan_block, docs_dir, name) for name in _RECONSTRUCTIONS},
        "membership": membership_results.page,
        "audit": audit_results.page,
        "planted_bugs": planted_bugs.page,
        "canaries": canaries.page,
        "gradient_inversion": inversion_results.page,
        "gradient_inversion_mnist": inversion_results.page,
    }

    results = docs_dir / "results" / "attacks"
    return {
        name: docs_blocks.made_from(results / f"{name}.json", table)
        for name, table in renderers.items()
    }


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Rewrites the blocks of the page; returns its path."""
    return docs_blocks.rewrite(docs_dir / "attacks.md", _blocks(docs_dir))


def main(_: list[str]) -> None:
    """Rewrites the page."""
    docs_dir = pathlib.Path(flags.FLAGS.attack_pages_dir)
    runs = command.named_folders(flags.FLAGS.keep_attacks, "keep_attacks")
    for name, folder in runs.items():
        keep(name, folder, docs_dir)
    print(rewrite(docs_dir))


if __name__ == "__main__":
    command.run(main, __doc__)
