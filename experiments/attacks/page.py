"""Writes the measured parts of docs/attacks.md.

  python -m experiments.attacks.page

They come from docs/results/attacks, which holds the results.json of runs of
`experiments.attack` (of gradient_inversion without the images); a part whose file is
not there says so. The run's pictures are in docs/images.
"""

import json
import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

from absl import flags

from fedsvp_jax.attacks import table
from fedsvp_jax.report import blocks

from .. import flags as experiment_flags
from . import tables

flags.DEFINE_string(
    "attack_pages_dir", "docs", "Folder of attacks.md, and of results/."
)

_MISSING = "Not measured yet."


def acgan_block(docs_dir: pathlib.Path, name: str, results: dict[str, Any]) -> str:
    """A run's table, the machine kind, and its pictures (acgan_NAME_MECHANISM.png)."""
    settings = results["settings"]
    versions = settings["versions"]
    parts = [
        f"{table.markdown(results)} Device: {settings['device_kind']}, "
        f"JAX {versions['jax']}."
    ]
    for row in results["mechanisms"]:
        picture = f"images/{name}_{row['mechanism']}.png"
        if (docs_dir / picture).exists():
            parts.append(f"![{row['mechanism']}]({picture})")
    return "\n\n".join(parts)


def _blocks(docs_dir: pathlib.Path) -> dict[str, Callable[[], str]]:
    """Block -> what writes it."""
    renderers: dict[str, Callable[[dict[str, Any]], str]] = {
        "acgan_mnist": partial(acgan_block, docs_dir, "acgan_mnist"),
        "acgan_digits": partial(acgan_block, docs_dir, "acgan_digits"),
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
    page.write_text(blocks.rewritten(page.read_text(), _blocks(docs_dir)))
    return page


def main(_: list[str]) -> None:
    """Rewrites the page."""
    print(rewrite(pathlib.Path(flags.FLAGS.attack_pages_dir)))


if __name__ == "__main__":
    experiment_flags.run(main, __doc__)
