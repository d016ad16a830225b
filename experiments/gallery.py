"""Draws the figures of docs/images again from the results in docs/results.

  python -m experiments.gallery
  python -m experiments.gallery --figure=pdf

For a change of style, or for a paper (PDFs lie beside the pictures): nothing is
measured anew. Grids of images and the figures of single runs have no kept results; the
pages that show them name their commands.
"""

import json
import pathlib
from typing import Any

from absl import flags

from fedsvp_jax.report import figures

from . import command, docs_blocks
from .attack import audit_results, membership_results, reconstruction_results
from .benchmark import profile
from .decisive import docs_page as decisive
from .influence import figures as influence_figures
from .reproduce import evidence
from .reproduce import figures as reproduction_figures


def redraw(docs_dir: pathlib.Path, kind: str = "svg") -> list[pathlib.Path]:
    """Draws the figures whose results are kept; returns their paths.

    Args:
      docs_dir: the folder that holds results/; figures go to its folder images/.
      kind: svg, pdf or png.

    Raises:
      OSError: a file of results is missing.
    """
    images = docs_dir / "images"
    images.mkdir(exist_ok=True)

    def kept(name: str) -> Any:
        return json.loads((docs_dir / "results" / f"{name}.json").read_text())

    made = [
        images / f"{name}.{kind}"
        for name in ("membership_roc", "audit_audit", "profile_W1", "decisive")
    ]
    membership_results.draw(made[0], kept("attacks/membership")["rows"])
    audit_results.draw(made[1], kept("attacks/audit")["rows"])
    profile.draw(kept("profile_W1"), made[2])
    decisive.draw(docs_dir / "results" / "decisive", made[3])
    measured = evidence.load(docs_dir / "results" / "reproduction")
    made += reproduction_figures.write_figures(measured, images, kind)
    made += reconstruction_results.draw_kept(docs_dir, kind)
    return made + influence_figures.draw_kept(docs_dir, kind)


def main(_: list[str]) -> None:
    """Draws the figures."""
    command.print_files(redraw(docs_blocks.DOCS, flags.FLAGS.figure))


if __name__ == "__main__":
    flags.DEFINE_enum("figure", "svg", figures.FORMATS, "Format of the figures.")
    command.run(main, __doc__)
