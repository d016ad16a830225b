"""Writes the measured parts of docs/attacks.md.

  python -m experiments.attacks.page

They come from docs/results/attacks; a part whose file is not there says so. A file
acgan_NAME.json is the results.json of a run of `--attack=acgan`, and the block
acgan_NAME of the page its table.
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


def acgan_block(path: pathlib.Path) -> str:
    """A run's table and the machine kind."""
    if not path.exists():
        return _MISSING
    results = json.loads(path.read_text())
    settings = results["settings"]
    versions = settings["versions"]
    return (
        f"{table.markdown(results)} Device: {settings['device_kind']}, "
        f"JAX {versions['jax']}."
    )


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Rewrites the page's blocks; returns the page."""
    page = docs_dir / "attacks.md"
    folder = docs_dir / "results" / "attacks"
    made = {name: partial(acgan_block, folder / f"{name}.json") for name in _BLOCKS}
    page.write_text(blocks.rewritten(page.read_text(), made))
    return page


def main(_: list[str]) -> None:
    """Rewrites the page."""
    print(rewrite(pathlib.Path(flags.FLAGS.pages_dir)))


if __name__ == "__main__":
    experiment_flags.run(main, __doc__)
