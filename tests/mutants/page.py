"""Writes the tables of docs/results/testing.md: what mutants and faults showed."""

import json
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from experiments import docs_blocks, kept_rows
from fedsvp_jax.report.text_table import markdown

from .parts import PARTS

ROOT = pathlib.Path(__file__).parents[2]
DOCS = docs_blocks.DOCS
MUTANTS = "results/testing/mutants.json"  # in docs
FAULTS = "results/testing/faults.jsonl"
Json = dict[str, Any]
_OF_ALL = ("fault", "case", "tried", "held", "provenance")  # what each fault's row has


def reasons() -> dict[tuple[str, ...], str]:
    """Why no test can notice a mutant, by what it changes."""
    listed = tomllib.loads((ROOT / "tests/mutants/equivalent.toml").read_text())
    return {
        (module, *mutant): group["reason"]
        for group in listed["equivalent"]
        for module, mutants in group["mutants"].items()
        for mutant in mutants
    }


def key(mutant: Json) -> tuple[str, ...]:
    return tuple(mutant[name] for name in ("module", "function", "before", "after"))


def score(killed: int, trials: int, mutants: int) -> str:
    """The share that was killed; of a sample with its 95 % interval (Wilson 1927)."""
    share = f"{100 * killed / trials:.1f} %"
    if trials == mutants:
        return share
    interval = stats.binomtest(killed, trials).proportion_ci(method="wilson")
    return f"{share} ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def scores_table(results: Mapping[str, Json], known: Mapping[Any, str]) -> str:
    """One row per module, and their sums."""
    rows: list[Json] = []
    for module, kept in results.items():
        counts = {name: kept[name] for name in ("mutants", "run", "killed")}
        equal = sum(key(mutant) in known for mutant in kept["left"])
        counts |= {"equivalent": equal, "survived": len(kept["left"]) - equal}
        trials = kept["run"] - equal
        share = score(kept["killed"], trials, kept["mutants"] - equal) if trials else ""
        commit = f"`{kept['commit']}`" if "commit" in kept else ""
        rows.append(
            {"module": f"`{module}`", **counts, "score": share, "commit": commit}
        )
    sums = {name: sum(row[name] for row in rows) for name in counts}
    rows.append({"module": "all", **sums, "score": "", "commit": ""})
    waiting = [
        f"`{module}`"
        for part in PARTS.values()
        for module in part.modules
        if module not in results
    ]
    table = markdown([{name: f"{cell}" for name, cell in row.items()} for row in rows])
    return table + f"\nNot run yet: {', '.join(waiting)}." * bool(waiting)


def mutants_table(mutants: Sequence[tuple[Json, str]], title: str) -> str:
    """One row per mutant that no test noticed."""

    def code(text: str) -> str:
        return f"`` {text} ``".replace("|", "\\|") if text else "(removed)"

    rows = [
        {
            "module": f"`{one['module']}`",
            "function": f"`{one['function']}`",
            "code": code(one["before"]),
            "mutant": code(one["after"]),
            title: text,
        }
        for one, text in mutants
    ]
    return markdown(rows) if rows else "None."


def faults_table(rows: Sequence[Json]) -> str:
    """One row per fault: in how many cases, how often, and how often it held."""
    faults: dict[str, list[Json]] = {}
    for row in rows:
        faults.setdefault(row["fault"], []).append(row)
    return markdown(
        [
            {
                "fault": name,
                "cases": f"{len(some)}",
                **{n: f"{sum(row[n] for row in some):,}" for n in ("tried", "held")},
            }
            for name, some in faults.items()
        ]
    )


def cases_table(rows: Sequence[Json]) -> str:
    """One row per kept row."""
    return markdown(
        [
            {name: row[name] for name in ("fault", "case")}
            | {name: f"{row[name]:,}" for name in ("tried", "held")}
            | {
                "also": ", ".join(
                    f"{name.replace('_', ' ')}: {value}"
                    for name, value in row.items()
                    if name not in _OF_ALL
                ),
                "commit": f"`{row['provenance']['commit'][:7]}`",
                "date": row["provenance"]["date"][:10],
            }
            for row in rows
        ]
    )


def write_pages(docs: pathlib.Path) -> pathlib.Path:
    """Writes the blocks of the page's tables from kept results."""
    results, known = json.loads((docs / MUTANTS).read_text()), reasons()
    left = [mutant for kept in results.values() for mutant in kept["left"]]
    alike = [(one, known[key(one)]) for one in left if key(one) in known]
    survived = [(one, one["status"]) for one in left if key(one) not in known]
    faults = kept_rows.read(docs / FAULTS)
    blocks = {
        "scores": scores_table(results, known),
        "equivalent": mutants_table(alike, "why no test can notice it"),
        "survived": mutants_table(survived, "what mutmut says"),
        "faults": faults_table(faults),
        "each_fault": cases_table([row for row in faults if "came_back" not in row]),
        "sites": cases_table([row for row in faults if "came_back" in row]),
    }
    written = {name: lambda text=text: text for name, text in blocks.items()}
    return docs_blocks.rewrite(docs / "testing.md", written)


if __name__ == "__main__":
    docs_blocks.run(write_pages, __doc__)
