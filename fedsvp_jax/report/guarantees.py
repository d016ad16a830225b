"""The guarantees of runs that pages show, and what these rest on."""

import contextlib
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.claims import METHODS
from fedsvp_jax.accounting.views import BYPASSED, SEEN
from fedsvp_jax.core.files import Record, read_json, toml_beside

from . import labels, read

_LEFT_OUT = ("basic", "none")  # accountings at another δ, or without an ε
_USUAL = (1.0, 3.0, 8.0)  # ε
_ALIKE = 0.1  # of 100 guesses
_OF_SUM = "(\\d+) colluding.* secure aggregation shows"
_APART = "no two logs of these rows take part in the same training"
_GROUPS = toml_beside(__file__, "assets/assumptions.toml")["groups"]


def strongest(cells: Iterable[Record]) -> list[Record]:
    """The least proved ε of the worst cell, for each adversary and relation.

    Each has its `risk` (`accounting.tradeoff`): that of what was spent, where a cell
    recorded it, else that of its ε and δ. It is of `one_client` where one has all rows.
    """
    worst: dict[tuple[str, str], Record] = {}
    for cell in cells:
        best: dict[tuple[str, str], Record] = {}
        for claim in cell.get("guarantees") or ():
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
                clients = (cell.get("by_client") or {}).get("uploads", ())
                facts = {"right": right, "one_client": len(clients) == 1}
                worst[key] = claim | {"risk": risk} | facts
    return list(worst.values())


def shared(claims: Sequence[Record]) -> Record:
    """The strongest adversary against whom all of these claims hold: their ε add up
    against nobody stronger.

    A claim against the server, which sees every upload, holds however many clients
    collude; one of a sum against h colluders, against fewer; every other one at least
    against an observer of the model.

    Returns:
      `adversary`, and the `assumptions` of all, each sentence once.
    """
    numbers, texts = [], "; ".join(str(claim.get("assumptions")) for claim in claims)
    for claim in claims:
        of_sum = re.search(_OF_SUM, f"{claim['adversary']}: {claim.get('assumptions')}")
        server = math.inf if claim["adversary"] == "server" else -1
        numbers.append(int(of_sum[1]) if of_sum else server)
    number = min(numbers)
    weakest = claims[numbers.index(number)]["adversary"]
    texts = re.sub(r"(?<=together at most )\d+", str(number), texts)
    rests: dict[str, dict[str, None]] = {}  # each log has its own number of sharers
    for pairs in by_group(texts.split("; ")).values():
        for sentence, text in pairs:
            rests.setdefault(sentence, {})[text] = None
    return {
        "adversary": SEEN["observer"][0] if number < 0 else weakest,
        "assumptions": "; ".join(map(", or ".join, rests.values())),
    }


def promised(promise: Record, status: str, budgets: Sequence[Record] = ()) -> Record:
    """A site's promise (`deploy.Policy.says`) as the summary of a run that kept it.

    Args:
      status: proved or nominal.
      budgets: promises of all logs of the same records, this one's among them, each
        with its `log`; the claim is then of those of one relation together, against
        the adversary that they share.
    """
    budgets = [b for b in budgets if b["relation"] == promise["relation"]] or [promise]
    claims, risks = [], {}
    for b in budgets:
        sees = SEEN.get(b["adversary"], SEEN["colluders"])[1]
        claims.append(b | {"assumptions": f"{sees}; {b['assumptions']}"})
    method = max(b["total_accounting"] for b in budgets)  # rdp after pld
    status = min(status, *(b["status"] for b in budgets))  # nominal, if one is
    claim: Record = promise | shared(claims) | {"method": method, "status": status}
    if len({b.get("run_id") for b in budgets} - {None}) < len(budgets) > 1:
        claim["assumptions"] += f"; {_APART}"
    claims = [claim]
    if claim["adversary"] != "server":  # of a sum
        seen = f"{BYPASSED}; {claim['assumptions']}"
        claims.append(claim | {"adversary": "server", "assumptions": seen})
    for row in claims:
        terms = [
            (_against(row["adversary"], b), b["target_delta"], b["total_accounting"])
            for b in budgets
        ]
        row["epsilon"], row["delta"] = (sum(term[n] for term in terms) for n in (0, 1))
        released = any(b["release_epsilon"] for b in budgets)
        if not released and math.isfinite(row["epsilon"]):
            risks[row["adversary"]] = tradeoff.of_promises(terms)
    return {**claim, "guarantees": claims, "risk": risks}


def _against(adversary: str, promise: Record) -> float:
    """ε that a promise states; the server may see what only its sum was to hide."""
    of_sum = adversary == "server" != promise["adversary"]
    epsilon = promise.get("server_epsilon" if of_sum else "total_epsilon")
    return float(epsilon or math.inf)


def main(summary: Record) -> Record | None:
    """The claim of summary.json's adversary and relation; None: nothing is claimed."""
    meaning = [summary.get("adversary"), summary.get("relation")]
    for claim in strongest([dict(summary)]):
        if [claim["adversary"], claim["relation"]] == meaning:
            return claim
    return None


def choices(claim: Record) -> dict[float, Record]:
    """The claim's ε and usual ones, by size, each with its `tradeoff.risk`.

    Others have the noise of the claim's kind. None stands beside a claim whose own risk
    is not that of its ε and δ alone: of sampled batches, or of several events.
    """
    chosen, delta, recorded = claim["epsilon"], claim["delta"], claim["risk"]
    method = "pld" if recorded["exact"] else "rdp"
    risks = {
        epsilon: tradeoff.of_promises([(epsilon, delta, method)])
        for epsilon in (*_USUAL, chosen)
    }
    if abs(risks[chosen]["right_of_100"] - recorded["right_of_100"]) > _ALIKE:
        risks = {}
    risks[chosen] = recorded
    return dict(sorted(risks.items()))


def beside(folder: Path, config: Record) -> list[Record | None]:
    """`main` of the finished runs in folders beside this one, on the same table.

    Tables are the same where their files have one name. Nothing of the records decides
    that, so the number may be published; a fingerprint's equality would tell of them.
    """
    name, claims = labels.data_name(config), []
    if name == str(config.get("dataset")):  # no table of one's own
        return []
    for path in sorted(folder.resolve().parent.glob("*/summary.json")):
        with contextlib.suppress(OSError, ValueError):  # no run of ours
            other = read_json(path.with_name("config.json"))
            if path.parent != folder.resolve() and labels.data_name(other) == name:
                claims.append(main(read_json(path)))
    return claims


def _rank(row: Record) -> tuple[bool, float, bool]:
    """A run that ends at its promise may have spent 1 + 1e-7 of it, by rounding."""
    epsilon = float(f"{row['epsilon']:.6g}")
    return row["status"] != "proved", epsilon, row["method"] not in METHODS


def by_group(assumptions: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Assumptions by the head of their group in assets/assumptions.toml.

    Each is a sentence for readers and the words of the record.
    """
    groups: dict[str, list[tuple[str, str]]] = {group["head"]: [] for group in _GROUPS}
    for text in assumptions:
        head, sentence = next(
            (group["head"], sentence)
            for group in _GROUPS
            for words, sentence in group["rules"].items()
            if words in text
        )
        groups[head].append((sentence or f"{text[:1].upper()}{text[1:]}.", text))
    return groups
