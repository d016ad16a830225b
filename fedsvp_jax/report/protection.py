"""protection.html: what a run promises, for those who answer for the records.

It holds nothing but what may be published (docs/privacy.md): settings, guarantees,
the score with noise of its own, and the hash of the model. Hashes of config.json and of
other files stay out, since who knows all records but one could confirm a guess by them.

The parts of the differential privacy pyramid are those of NIST SP 800-226 (March 2025).
Parts that this program cannot know are marked as open.
"""

import datetime
import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.claims import METHODS
from fedsvp_jax.report import headline, labels, page, read

STATUS = {"proved": "proved", "nominal": "nominal, not proved"}
_LEFT_OUT = ("basic", "none")  # accountings at another δ, or without an ε


def strongest(cells: Iterable[read.Row]) -> list[dict[str, Any]]:
    """The least proved ε of the worst cell, for each adversary and relation.

    Each has its `risk` (`accounting.tradeoff`): that of what was spent, where a cell
    recorded it, else that of its ε and δ.
    """
    worst: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in cells:
        best: dict[tuple[str, str], dict[str, Any]] = {}
        for claim in read.guarantees(cell):
            epsilon = read.number(claim.get("epsilon"))
            if claim.get("method") in _LEFT_OUT or epsilon is None:
                continue
            key = str(claim["adversary"]), str(claim["relation"])
            if key not in best or _rank(claim) < _rank(best[key]):
                best[key] = claim
        for key, claim in best.items():
            risk = (cell.get("risk") or {}).get(key[0])  # of what was spent
            spent = claim["method"] in METHODS and claim.get("copies", 1) == 1
            if risk is None or not spent or cell["relation"] != key[1]:
                exact = bool((risk or {}).get("exact"))
                risk = tradeoff.risk([(claim["epsilon"], claim["delta"])], exact=exact)
            if key not in worst or claim["epsilon"] > worst[key]["epsilon"]:
                right = math.ceil(risk["right_of_100"] - 1e-9)
                worst[key] = claim | {"risk": risk, "right": right}
    return list(worst.values())


def _rank(row: read.Row) -> tuple[bool, float, bool]:
    """A run that ends at its promise may have spent 1 + 1e-7 of it, by rounding."""
    epsilon = float(f"{row['epsilon']:.6g}")
    return row["status"] != "proved", epsilon, row["method"] not in METHODS


def risk_sentences(claim: Mapping[str, Any]) -> list[str]:
    """A claim's risk as natural frequencies (Nanayakkara et al. 2023, 2303.00738)."""
    return [headline.filled(name, claim) for name in ("guess", "recognised")]


def write_protection_page(run: read.RunFiles, folder: Path) -> Path | None:
    """Writes FOLDER/protection.html; none for a run that claims no ε or goes on."""
    summary, config = run.summary, run.config
    claims = strongest([summary])
    meaning = [summary.get("adversary"), summary.get("relation")]
    claim = next(
        (row for row in claims if [row["adversary"], row["relation"]] == meaning), None
    )
    path = folder / "protection.html"
    if run.unfinished is not None or claim is None:
        path.unlink(missing_ok=True)  # an earlier run's
        return None
    written = (folder / "summary.json").stat().st_mtime
    published = summary.get("published_scores")
    of_score = published or {"epsilon": 0.0}
    pairs = [(of_score["epsilon"], of_score.get("delta", 0.0))]
    release = headline.published(summary)
    if config.get("public_test"):
        release = headline.filled("quality", summary) or release
    hashes = [("final parameters", summary["params_sha256"])]
    schema = folder / "schema.toml"
    if claim["status"] == "proved" and schema.is_file():
        digest = hashlib.sha256(schema.read_bytes()).hexdigest()
        hashes.append(("schema.toml, which the sites declared", digest))
    return page.write(
        path,
        "protection.html",
        claim=claim,
        claims=claims,
        status=STATUS[claim["status"]],
        config=config,
        data_name=labels.data_name(config),
        ended=datetime.datetime.fromtimestamp(written, datetime.UTC).date(),
        hashes=hashes,
        mechanism=mechanisms.about(str(config["mechanism"])),
        release=release,
        published=published,
        test_right=math.ceil(tradeoff.right_of_100(pairs) - 1e-9),
        exact=headline.privacy(summary),
        sentences=risk_sentences(claim),
        unit=headline.filled("unit", claim),
    )
