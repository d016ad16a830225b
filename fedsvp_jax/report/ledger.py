"""A site's log as its auditor sees it: verified, added up anew, and as a page.

The sum is dp-accounting's. Where the promise is by RDP, an upload of noise multiplier z
is 1/(2z²)-zCDP (Bun and Steinke 2016, arXiv 1605.02065), a release of R a randomised
response. By PLD all uploads together are one Gaussian. Nothing of the package's own
accounting is asked. templates/ledger.html is the page of those who answer for the
data, and of their auditor: one small file without a script.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.deploy.chain import Entry, read_entries, verifies
from fedsvp_jax.deploy.refusal import Refused
from fedsvp_jax.deploy.witness import Seen, read_seen, seen_file

from . import guarantees, headline

_ROUNDING = 1 + 1e-5  # between two accountants, in float32 multipliers
# Errors of reading a log that is signed but is no site's. OverflowError: `math.exp` of
# a large number, `float` of a larger one.
_WRONG = (KeyError, TypeError, AttributeError, ValueError, ArithmeticError)

_WORDS = toml_beside(__file__, "assets/promise.toml")


class Row(NamedTuple):
    """One round that was charged."""

    round: int
    charged: str  # when
    sent: str  # when its upload was made; "" where it never was
    noise_multiplier: float
    epsilon: float  # of all rounds so far
    recorded: float | None  # the same as the site recorded it


class Ledger(NamedTuple):
    """The content of a log, and its problems.

    Attributes:
      file: its name.
      first: the body of its first entry.
      entries: the number of those that are right.
      rows: in order; the last ε is what was spent.
      counts: of test rows, likewise; a second adds its ε to the first's.
      witnessed: whether the witness's file was compared.
      problems: one sentence each; none where all is right.
      notes: what an auditor should know besides.
    """

    file: str
    first: Record
    entries: int
    rows: list[Row]
    counts: list[Row]
    witnessed: bool
    problems: list[str]
    notes: list[str]

    @property
    def spent(self) -> float:
        """ε of everything that was charged."""
        return self.rows[-1].epsilon if self.rows else 0.0


def audit(
    path: Path, witness: Path | None = None, site_key: str | None = None
) -> Ledger:
    """Reads a log and checks all of it.

    Args:
      path: of the log.
      witness: its folder, or its file of the site, which holds the newest entry that
        it has seen.
      site_key: the public key that the site is known by.

    Raises:
      ValueError: there is no entry to begin with.
      OSError: the file cannot be read.
    """
    data = path.read_bytes()
    entries, problem = read_entries(data, path.name)
    problems = [problem] if problem else []
    if not entries:
        raise ValueError(problem)
    first = entries[0].body
    try:
        _check_words(entries)
        rows, counts = _rows(entries), _rows(entries, of_tests=True)
        newest, unread = _seen(witness, first)
        problems += _chain_problems(entries, path.name, newest, site_key) + unread
        for charged in (rows, counts):
            problems += _sum_problems(first["promise"], charged)
        notes = headline.cells("notes", entries, newest)
        ledger = Ledger(
            path.name,
            first,
            len(entries),
            rows,
            counts,
            newest is not None,
            problems,
            [note["text"] for note in notes],
        )
        # Which a page shows.
        headline.cells("facts", ledger), first["site"], first["witness"], first["data"]
        guarantees.promised(first["promise"], "")
    except _WRONG as error:
        raise ValueError(
            f"{path.name} is signed, but is no site's log: {error!r}"
        ) from None
    if problems and path.read_bytes() != data:  # a node wrote meanwhile
        return audit(path, witness, site_key)
    return ledger


def _check_words(entries: Sequence[Entry]) -> None:
    """Raises ValueError: an entry or its promise has a word that no version writes.

    The relation of a mechanism from outside is its own, and nominal.
    """
    promise = entries[0].body["promise"]
    words = _WORDS | ({"relation": [".+"]} if promise["status"] == "nominal" else {})
    for name, value in promise.items():
        patterns = words.get(name, ())
        if not any(re.fullmatch(pattern, str(value)) for pattern in patterns):
            raise ValueError(f"no version promises {name} = {value!r}")
    for entry in entries[1:]:
        if entry.kind not in ("charge", "upload", "scores"):
            raise ValueError(f"no version writes an entry of the kind {entry.kind!r}")


def _rows(entries: Sequence[Entry], *, of_tests: bool = False) -> list[Row]:
    """One row for each charge, with its upload, and for each uncharged upload; or for
    each count of test rows.
    """
    promise = entries[0].body["promise"]
    rows: list[Row] = []
    for entry in entries[1:]:
        if (entry.kind == "scores") != of_tests:
            continue
        body = entry.body
        number, z = body["round"], body["noise_multiplier"]
        # A silent upload, which no record decides, has no noise and spends nothing.
        z = math.inf if z is None and body["epsilon"] == 0 else _number(z)
        if type(number) is not int:
            raise TypeError(f"{number!r} is no round")
        charge, upload, recorded = entry.time, "", None
        if entry.kind == "upload":
            charge, upload = "", entry.time
            if rows and rows[-1].round == number and not rows[-1].sent:
                charge = rows.pop().charged
            spent = body["epsilon_spent"][promise["total_accounting"]]
            if spent is not None:
                recorded = _number(spent)
        rows.append(Row(number, charge, upload, z, 0.0, recorded))
    epsilons = _epsilons([row.noise_multiplier for row in rows], promise)
    return [row._replace(epsilon=next(epsilons)) for row in rows]


def _number(value: Any) -> float:
    """A number; infinity may be a word, and NaN is none."""
    if math.isnan(number := float(value)):
        raise ValueError("NaN is no number")
    return number


def _epsilons(multipliers: Sequence[float], promise: Record) -> Iterator[float]:
    """ε of each upload and all before it, as promised, at the promise's δ."""
    import dp_accounting
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    responses, delta = [], promise["target_delta"]
    if not 0 < delta < 1:
        raise ValueError(f"target_delta is {delta}")
    if released := _number(promise["release_epsilon"]):
        responses = [
            dp_accounting.dp_event.RandomizedResponseDpEvent(
                2.0 / (1.0 + math.exp(released)), 2
            )
        ]
    precision = 0.0
    for multiplier in multipliers:
        upload = 1 / multiplier**2 if multiplier > 0 else math.inf
        precision += upload
        if promise["total_accounting"] == "pld":
            # Silent uploads alone have none.
            yield precision and get_epsilon_gaussian(precision**-0.5, delta)
            continue
        for event in (dp_accounting.dp_event.ZCDpEvent(upload / 2), *responses):
            accountant.compose(event)
        yield accountant.get_epsilon(delta)


def _seen(witness: Path | None, first: Record) -> tuple[Seen | None, list[str]]:
    """(the witness's newest entry of the site, the problems of its file)."""
    if witness is None:
        return None, []
    if witness.is_dir():
        witness = seen_file(witness, first["name"])
    try:
        newest = read_seen(witness, first["name"])
    except Refused as refusal:
        return None, [str(refusal)]
    if newest is None:
        return None, [f"{witness} is missing"]
    if (newest.site, newest.witness) != (first["site"], first["witness"]):
        return None, [f"{witness} is of another site, or of another witness"]
    return newest, []


def _chain_problems(
    entries: Sequence[Entry], file: str, newest: Seen | None, site_key: str | None
) -> list[str]:
    first, last = entries[0].body, entries[-1]
    problems = []
    if site_key is not None and first["site"] != site_key:
        problems.append(f"{file} is signed by another key than {site_key}")
    for before, entry in itertools.pairwise(entries):
        seen = Seen(first["site"], before.number, before.hash, first["witness"])
        if not verifies(
            first["witness"], entry.body["witnessed"], seen.message(first["name"])
        ):
            problems.append(
                f"entry {before.number} of {file} was not seen by the witness"
            )
    if newest is None:
        return problems
    if not 0 <= last.number - newest.number <= 1:
        problems.append(
            f"the witness has seen {newest.number} entries of {file}, which has "
            f"{last.number}"
        )
    elif entries[newest.number - 1].hash != newest.hash:
        problems.append(
            f"entry {newest.number} of {file} is not the one that its witness has seen"
        )
    return problems


def _sum_problems(promise: Record, rows: Sequence[Row]) -> list[str]:
    problems = [
        f"round {row.round} was sent and never charged"
        for row in rows
        if not row.charged
    ]
    problems += [
        f"round {row.round} came after round {before.round}"
        for before, row in itertools.pairwise(rows)
        if row.round <= before.round
    ]
    limit = promise["total_epsilon"]
    problems += [
        f"round {row.round}: ε is {row.epsilon:.4g} by then, and {limit:g} was promised"
        for row in rows
        if limit is not None and not row.epsilon <= limit * _ROUNDING
    ][:1]
    problems += [
        f"round {row.round}: the site recorded ε = {row.recorded:.6g}, and its uploads "
        f"add up to {row.epsilon:.6g}"
        for row in rows
        if row.recorded is not None and row.epsilon > row.recorded * _ROUNDING
    ][:1]
    max_uploads = promise["max_uploads"]
    if max_uploads is not None and len(rows) > max_uploads:
        problems.append(
            f"{len(rows)} uploads are charged, and {max_uploads} at most were promised"
        )
    return problems
