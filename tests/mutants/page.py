"""Writes docs/testing.md and its tables: what mutants and faults showed."""

import json
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from experiments import docs_blocks
from fedsvp_jax.report.text_table import markdown

from ..faults import page as faults
from .parts import PARTS

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
MUTANTS = "results/testing/mutants.json"  # in docs
EQUIVALENT = ROOT / "tests/mutants/equivalent.toml"
Json = dict[str, Any]
_CHANGE = ("module", "function", "before", "after")


def reasons() -> dict[tuple[str, ...], str]:
    """Why no test can notice a mutant, by what it changes."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])
    return {
        (module, *mutant): group["reason"]
        for group in listed
        for module, mutants in group["mutants"].items()
        for mutant in mutants
    }


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    found = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    return found.low, found.high


def _score(killed: int, trials: int, mutants: int) -> str:
    if not trials:
        return ""
    share = f"{100 * killed / trials:.1f} %"
    if trials == mutants:
        return share
    low, high = wilson(killed, trials)
    return f"{share} ({100 * low:.0f} to {100 * high:.0f})"


def scores_table(results: Mapping[str, Json], known: Mapping[Any, str]) -> str:
    """One row per module: mutants made, run, killed, equivalent, left, score."""
    rows, sums = [], [0] * 5
    for module, found in results.items():
        equivalent = sum(key(change) in known for change in found["left"])
        counts = [
            found["mutants"],
            found["run"],
            found["killed"],
            equivalent,
            len(found["left"]) - equivalent,
        ]
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        commit = f"`{found['commit']}`" if "commit" in found else ""
        rows.append(_row(f"`{module}`", counts) | {"commit": commit})
    return markdown([*rows, _row("all", sums) | {"score": "", "commit": ""}])


def waiting(results: Mapping[str, Json]) -> str:
    """A sentence that names the modules of which no mutant was run, if any."""
    modules = [module for part in PARTS.values() for module in part.modules]
    missing = [f"`{module}`" for module in modules if module not in results]
    return f"\nNot run yet: {', '.join(missing)}." if missing else ""


def _row(name: str, counts: Sequence[int]) -> dict[str, str]:
    mutants, ran, killed, equivalent, survived = counts
    return {
        "module": name,
        "mutants": str(mutants),
        "run": str(ran),
        "killed": str(killed),
        "equivalent": str(equivalent),
        "survived": str(survived),
        "score": _score(killed, ran - equivalent, mutants - equivalent),
    }


def key(change: Json) -> tuple[str, ...]:
    return tuple(change[name] for name in _CHANGE)


def _code(text: str) -> str:
    return f"`` {text} ``" if text else "(removed)"


def left_table(changes: Sequence[tuple[Json, str]], title: str) -> str:
    """One row per mutant."""
    if not changes:
        return "None."
    rows = [
        {
            "module": f"`{change['module']}`",
            "function": f"`{change['function']}`",
            "code": _code(change["before"]).replace("|", "\\|"),
            "mutant": _code(change["after"]).replace("|", "\\|"),
            title: text,
        }
        for change, text in changes
    ]
    return markdown(rows)


def write_pages(docs: pathlib.Path) -> None:
    """Writes the blocks of docs/testing.md and of its tables from kept results."""
    results = json.loads((docs / MUTANTS).read_text())
    known = reasons()
    left = [change for found in results.values() for change in found["left"]]
    alike = [(c, known[key(c)]) for c in left if key(c) in known]
    survived = [(c, c["status"]) for c in left if key(c) not in known]
    blocks = {
        "scores": lambda: scores_table(results, known) + waiting(results),
        "equivalent": lambda: left_table(alike, "why no test can notice it"),
        "survived": lambda: left_table(survived, "what mutmut says"),
    }
    docs_blocks.rewrite(docs / "testing.md", blocks | faults.blocks(docs))
