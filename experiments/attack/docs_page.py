"""Writes the measured parts of docs/attacks.md.

  python -m experiments.attack.docs_page --keep_attacks=acgan_mnist=runs/acgan

They come from the files of docs/results/attacks, each the results.json of one
`experiments.attack` without the images; a part whose file is not there says so.
--keep_attacks adds one or replaces it, and its pictures in docs/images.
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
from . import reconstruction_table, tables

flags.DEFINE_string(
    "attack_pages_dir", "docs", "Folder of attacks.md, and of results/."
)

flags.DEFINE_list("keep_attacks", [], "NAME=FOLDER: runs to keep in docs.")

_MISSING = "Not measured yet."
_RECONSTRUCTIONS = ("acgan_mnist", "acgan_mnist_eps03", "acgan_digits")


def keep(name: str, folder: pathlib.Path, docs_dir: pathlib.Path) -> None:
    """Copies a run's results to results/attacks/NAME.json, images/NAME_PICTURE too."""
    content = json.loads((folder / "results.json").read_text())
    content.pop("images", None)
    content.get("settings", {}).pop("data_dir", None)
    write_json(docs_dir / "results" / "attacks" / f"{name}.json", content)
    for picture in folder.glob("*.png"):
        shutil.copy(picture, docs_dir / "images" / f"{name}_{picture.name}")


def acgan_block(docs_dir: pathlib.Path, name: str, results: dict[str, Any]) -> str:
    """A run's table, the machine kind, and its pictures (acgan_NAME_MECHANISM.png)."""
    settings = results["settings"]
    versions = settings["versions"]
    parts = [
        f"{reconstruction_table.markdown(results)} Device: {settings['device_kind']}, "
        f"JAX {versions['jax']}."
    ]
    for shown in (*(row["mechanism"] for row in results["mechanisms"]), "scores"):
        picture = f"images/{name}_{shown}.png"
        if (docs_dir / picture).exists():
            parts.append(f"![{shown}]({picture})")
    return "\n\n".join(parts)


def _blocks(docs_dir: pathlib.Path) -> dict[str, Callable[[], str]]:
    """Block -> what writes it."""
    renderers: dict[str, Callable[[dict[str, Any]], str]] = {
        **{name: partial(acgan_block, docs_dir, name) for name in _RECONSTRUCTIONS},
        "membership": tables.membership_table,
        "audit": tables.audit_table,
        "gradient_inversion": tables.inversion_table,
        "gradient_inversion_mnist": tables.inversion_table,
    }

    def block(name: str) -> str:
        path = docs_dir / "results" / "attacks" / f"{name}.json"
        return (
            renderers[name](json.loads(path.read_text())) if path.exists() else _MISSING
        )

    return {name: partial(block, name) for name in renderers}


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Rewrites the page's blocks; returns the page."""
    page = docs_dir / "attacks.md"
    page.write_text(docs_blocks.rewritten(page.read_text(), _blocks(docs_dir)))
    return page


def main(_: list[str]) -> None:
    """Rewrites the page."""
    docs_dir = pathlib.Path(flags.FLAGS.attack_pages_dir)
    kept = command.named_folders(flags.FLAGS.keep_attacks)
    for name, folder in kept.items():
        keep(name, folder, docs_dir)
    print(rewrite(docs_dir))


if __name__ == "__main__":
    command.run(main, __doc__)
