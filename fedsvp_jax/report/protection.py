"""protection.html: what a run promises, for those who answer for the records.

It holds nothing but what may be published (docs/privacy.md): settings, guarantees,
the score with noise of its own, and the hash of the model. Hashes of config.json and of
other files stay out, since who knows all records but one could confirm a guess by them.

The parts of the differential privacy pyramid are those of NIST SP 800-226 (March 2025).
Parts that this program cannot know are marked as open.
"""

import datetime
from pathlib import Path

from fedsvp_jax.core.files import sha256

from . import guarantees, headline, page, read


def write_protection_page(run: read.RunFiles, folder: Path) -> Path | None:
    """Writes FOLDER/protection.html; none for a run that claims no ε or goes on."""
    summary, config = run.summary, run.config
    claim = guarantees.main(summary)
    path = folder / "protection.html"
    if run.unfinished is not None or claim is None:
        path.unlink(missing_ok=True)  # an earlier run's
        return None
    written = (folder / "summary.json").stat().st_mtime
    hashes = [("final parameters", summary["params_sha256"])]
    schema = folder / "schema.toml"
    if claim["status"] == "proved" and schema.is_file():
        hashes.append(("schema.toml, which the sites declared", sha256(schema)))
    return page.write(
        path,
        "protection.html",
        claim=claim,
        others=guarantees.beside(folder, config),
        config=config,
        ended=datetime.datetime.fromtimestamp(written, datetime.UTC).date(),
        hashes=hashes,
        summary=summary,
        test_right=guarantees.right_about_test(summary),
        exact=headline.privacy(summary),
    )
