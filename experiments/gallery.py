"""Draws the figures of docs/images again from the results in docs/results.

  python -m experiments.gallery

For a change of style: nothing is measured anew. The figures of docs/reproduction.md are
drawn by `experiments.reproduce --norun`. Grids of images and the figures of single runs
have no kept results; the pages that show them name their commands.
"""

import json
import pathlib
from typing import Any

from . import docs_blocks
from .attack import audit_results, membership_results, reconstruction_results
from .benchmark import profile
from .influence import figures as influence_figures


def redraw(docs_dir: pathlib.Path) -> list[pathlib.Path]:
    """Draws the figures whose results are kept; returns their paths.

    Args:
      docs_dir: the folder that holds results/; figures go to its folder images/.

    Raises:
      OSError: a file of results is missing.
    """
    images = docs_dir / "images"
    images.mkdir(exist_ok=True)

    def kept(name: str) -> Any:
        return json.loads((docs_dir / "results" / f"{name}.json").read_text())

    made = [
        images / "membership_roc.svg",
        images / "audit_audit.svg",
        images / "profile_W1.svg",
    ]
    membership_results.draw(made[0], kept("attacks/membership")["rows"])
    audit_results.draw(made[1], kept("attacks/audit")["rows"])
    profile.draw(kept("profile_W1"), made[2])
    made += reconstruction_results.draw_kept(docs_dir)
    return made + influence_figures.draw_kept(docs_dir)


if __name__ == "__main__":
    docs_blocks.run(redraw, __doc__)
