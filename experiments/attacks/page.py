"""Writes the measured parts of docs/attacks.md.

  python -m experiments.attacks.page

They come from docs/results/attacks; a part whose file is not there says so. A file
acgan_NAME.json is the results.json of a run of `--attack=acgan`, and the block
acgan_NAME of the page its table, with those of the run's pictures that are in
docs/images as acgan_NAME_MECHANISM.png.
"""

import json
import pathlib
from functools import partial

from absl import flags

from experiments import flags as experiment_flags
from fedsvp_jax.attacks import table
from fedsvp_jax.report import blocks

flags.DEFINE_string("pages_dir", "docs", "Folder of attacks.md, and of results/.")

_MISSING = "Not measured yet."
_BLOCKS = ("acgan_mnist", "acgan_digits")


def acgan_block(docs_dir: pathlib.Path, name: str) -> str:
    """A run's table, the machine kind, and its pictures."""
    path = docs_dir / "results" / "attacks" / f"{name}.json"
    if not path.exists():
        return _MISSING
    results = json.loads(path.read_text())
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


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Rewrites the page's blocks; returns the page."""
    page = docs_dir / "attacks.md"
    made = {name: partial(acgan_block, docs_dir, name) for name in _BLOCKS}
    page.write_text(blocks.rewritten(page.read_text(), made))
    return page


def main(_: list[str]) -> None:
    """Rewrites the page."""
    print(rewrite(pathlib.Path(flags.FLAGS.pages_dir)))


if __name__ == "__main__":
    experiment_flags.run(main, __doc__)
