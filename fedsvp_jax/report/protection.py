"""protection.html: what a run promises, for those who answer for the records.

It holds nothing but what may be published (`disclosure.PUBLIC`): settings, guarantees,
the score with noise of its own, and the hash of the model. Hashes of config.json and of
other files stay out, since who knows all records but one could confirm a guess by them.

The parts of the differential privacy pyramid are those of NIST SP 800-226 (March 2025).
Parts that this program cannot know are marked as open.
"""

import datetime
import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.claims import METHODS
from fedsvp_jax.report import headline, labels, page, provenance, read
from fedsvp_jax.report.disclosure import EXPERIMENTER, PUBLIC

STATUS = {"proved": "proved", "nominal": "nominal, not proved"}
_OPEN = "not known to this program: to be stated by whoever holds the data"
_LEFT_OUT = ("basic", "none")  # accountings at another δ, or without an ε
_SETTINGS = (  # of which none follows a record's values
    "mechanism",
    "clipping",
    "noise_trust",
    "noise_sampler",
    "l2_norm_clip",
    "model",
    "num_clients",
    "cohort_size",
    "num_rounds",
    "batches",
    "batch_size",
    "num_train_examples",
    "num_test_examples",
)
_COLUMNS = {
    "against": "adversary",
    "what may change": "relation",
    "ε": "epsilon",
    "δ": "delta",
    "of 100 guesses right, at most": "right",
    "status": "status",
}


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
                worst[key] = claim | {"risk": risk}
    return list(worst.values())


def _rank(row: read.Row) -> tuple[bool, float, bool]:
    """A run that ends at its promise may have spent 1 + 1e-7 of it, by rounding."""
    epsilon = float(f"{row['epsilon']:.6g}")
    return row["status"] != "proved", epsilon, row["method"] not in METHODS


# The unit of privacy, by words of a claim's relation.
_UNITS = {
    "all records of a client": "client",
    "remove a client": "client",
    "replace a client": "client",
    "person": "person",
}


def risk_sentences(claim: Mapping[str, Any]) -> tuple[str, str]:
    """A claim's risk as natural frequencies (Nanayakkara et al. 2023, 2303.00738)."""
    relation, risk = str(claim["relation"]), claim["risk"]
    unit = next((unit for words, unit in _UNITS.items() if words in relation), "row")
    right = math.ceil(risk["right_of_100"] - 1e-9)
    recognised = math.ceil(1000 * risk["recognised"] - 1e-9)
    return (
        f"Somebody who knows everything but one {unit} guesses, at even odds, whether "
        f"it was there. At most {right} of 100 guesses are right; without a run, 50.",
        f"Of 1,000 {unit}s that were there, at most {recognised} are recognised, if 10 "
        "of 1,000 that were not are wrongly accused; without a run, 10.",
    )


def guarantee_table(claims: Sequence[Mapping[str, Any]]) -> page.Markup:
    """The table of guarantees, and the numbered list of their assumptions."""
    assumptions = [str(row.get("assumptions") or "").split("; ") for row in claims]
    listed = list(dict.fromkeys(filter(None, itertools.chain(*assumptions))))
    cells = []
    for row, texts in zip(claims, assumptions, strict=True):
        risk = row.get("risk") or {}
        values = {**row, "right": risk.get("right_of_100")}
        numbers = ", ".join(str(1 + listed.index(text)) for text in texts if text)
        cells.append(
            [_text(values.get(name)) for name in _COLUMNS.values()] + [numbers]
        )
    table = page.table(
        [*_COLUMNS, "assumptions"],
        cells,
        caption="The guarantee against each adversary. The last column gives the"
        " numbers of its assumptions in the list below. Nominal: not proved.",
    )
    return table + page.part("items", "Assumptions", listed, numbered=True)


def _text(value: object) -> str:
    if value is None or isinstance(value, int | float):
        return labels.significant(read.number(value))
    return str(value)


def pyramid(config: read.Row, claims: Sequence[read.Row], **parts: Any) -> read.Row:
    """The parts of NIST's pyramid, from the top.

    Args:
      config: config.json.
      claims: the guarantees.
      parts: the parts that take the place of the common ones.
    """
    sampler = config.get("noise_sampler", "float")
    common = {
        "privacy_parameters": "ε and δ of each guarantee, over the whole run",
        "unit_of_privacy": list(dict.fromkeys(claim["relation"] for claim in claims)),
        "algorithms": _OPEN,
        "correctness": "each guarantee's status: proved end to end, or nominal",
        "utility": _OPEN,
        "bias": _OPEN,
        "trust_model": list(dict.fromkeys(claim["adversary"] for claim in claims)),
        "query_model": f"one training of {config.get('num_rounds')} rounds; other "
        "releases of the same data are not counted",
        "side_channels": f"noise sampler: {sampler}; times are not hidden",
        "access_control": _OPEN,
        "data_collection_exposure": _OPEN,
    }
    return common | parts


def pyramid_table(parts: Mapping[str, Any]) -> page.Markup:
    """The parts of the pyramid as a table."""
    rows = [
        (name.replace("_", " "), "; ".join(text) if isinstance(text, list) else text)
        for name, text in parts.items()
    ]
    caption = "The parts of the differential privacy pyramid."
    return page.table(("part", "here"), rows, caption=caption)


_SIMULATION = (
    "All clients were simulated on one machine, with noise from a secret seed: whoever"
    " knows the seed can subtract the noise, and two published runs of one seed may"
    " share it. Other releases of the same records add to this ε."
)


def write_protection_page(run: read.RunFiles, folder: Path) -> Path | None:
    """Writes FOLDER/protection.html; none for a run that claims no ε or goes on."""
    summary, config = run.summary, run.config
    claims = strongest([summary])
    main = [
        row
        for row in claims
        if all(row[name] == summary.get(name) for name in ("adversary", "relation"))
    ]
    path = folder / "protection.html"
    if run.unfinished is not None or not main:
        path.unlink(missing_ok=True)  # an earlier run's
        return None
    claim = main[0]
    written = (folder / "summary.json").stat().st_mtime
    ended = datetime.datetime.fromtimestamp(written, datetime.UTC).date()
    epsilon = labels.significant(claim["epsilon"])
    delta = labels.significant(claim["delta"], 3)
    facts = [
        ("status", STATUS[claim["status"]]),
        ("ε of the whole run", epsilon),
        ("δ", delta),
        ("against", claim["adversary"]),
        ("protected: a change like", claim["relation"]),
    ]
    release = headline.published(summary) or (
        "No score of this model is published: no ε covers the rows of its test."
    )
    if config.get("public_test"):
        release = headline.quality(summary) or release
    mechanism = mechanisms.about(str(config["mechanism"]))
    parts = pyramid(
        config,
        claims,
        privacy_parameters=f"ε = {epsilon} at δ = {delta}, over the whole run",
        algorithms=f"{mechanism.label}: {mechanism.summary}",
        correctness=STATUS[claim["status"]],
        utility=release,
        bias="accuracy by group is not published: no ε covers it",
    )
    settings = [
        (name, provenance.value_text(config[name]))
        for name in _SETTINGS
        if config.get(name) is not None
    ]
    hashes = [("final parameters", summary["params_sha256"])]
    schema = folder / "schema.toml"
    if claim["status"] == "proved" and schema.is_file():
        digest = hashlib.sha256(schema.read_bytes()).hexdigest()
        hashes.append(("schema.toml, which the sites declared", digest))
    sentences = [headline.privacy(summary), *risk_sentences(claim)]
    sentences += filter(None, [_SIMULATION, headline.unprotected(config)])
    not_published = [f"{', '.join(files)}: {why}" for files, why in EXPERIMENTER]
    body = page.part("facts", facts) + page.part("paragraphs", sentences)
    public = page.part("items", "Public, and so not protected", _plain(PUBLIC))
    public += page.part("items", "Kept by the experimenter", _plain(not_published))
    versions = (config.get("versions") or {}).items()
    origin = page.table(("setting", "value"), settings, caption="Settings.")
    origin += page.table(("what", "SHA-256"), hashes, caption="Hashes.")
    origin += page.table(("package", "version"), versions, caption="Versions.")
    return page.write(
        path,
        title=f"How the records of {labels.data_name(config)} are protected",
        subtitle=f"For those who answer for the data. The run ended on {ended}.",
        sections=[
            ("claim", "The claim", body),
            ("adversaries", "Adversaries and assumptions", guarantee_table(claims)),
            ("score", "What the model is worth", page.part("paragraphs", [release])),
            ("public", "What is public", public),
            ("nist", "For an assessment (NIST SP 800-226)", pyramid_table(parts)),
            ("origin", "Settings, hashes, versions", origin),
        ],
    )


def _plain(texts: Iterable[str]) -> list[str]:
    """Texts without Markdown's marks."""
    return [text.replace("**", "").replace("`", "") for text in texts]
