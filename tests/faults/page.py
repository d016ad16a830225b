"""The tables of what was broken on purpose, from docs/results/testing/faults.jsonl."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from experiments import kept_rows
from fedsvp_jax.mechanisms import mechanism_names
from fedsvp_jax.report.text_table import markdown

from .rows import Row

FILE = "results/testing/faults.jsonl"  # in docs


def _each(rows: list[Row]) -> str:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["case"].partition(", ")[0], []).append(row)
    told = []
    for name, some in groups.items():
        of = [row["case"].partition(", ")[2] for row in some]
        which = f" ({', '.join(of)})" if any(of) else ""
        told.append(f"{name}{which} {_all(some)}")
    return ", ".join(told)


def _all(rows: list[Row]) -> str:
    tried, held = (sum(row[key] for row in rows) for key in ("tried", "held"))
    return f"{held:,} of {tried:,}"


def _waited(rows: list[Row]) -> str:
    refused = sum(row["refused"] for row in rows)
    return f"{_all(rows)}; {refused:,} times the second was refused, else it came later"


def _exhausted(rows: list[Row]) -> str:
    ended = sum(row["exhausted"] for row in rows)
    return f"{_all(rows)} processes, of which memory ended {ended:,}"


def _fuzzed(rows: list[Row]) -> str:
    fewest = min(rows, key=lambda row: row["tried"])
    refused = sum(row["refused"] for row in rows)
    slowest = max(row["slowest_seconds"] for row in rows)
    names = ", ".join(row["case"] for row in rows)
    return (
        f"{_all(rows)} files for {len(rows)} readers ({names}), the fewest "
        f"{fewest['tried']:,}; {refused:,} refused in a sentence, the others read; the "
        f"slowest took {slowest:.2g} s"
    )


def _tried(rows: list[Row]) -> str:
    return f"{len(rows)} kinds, {_all(rows)}: [what came back](#sites)"


def _by_engine(rows: list[Row]) -> str:
    engines = Counter(row["case"].partition(", ")[0] for row in rows)
    return f"{_all(rows)}: {', '.join(f'{n} of {name}' for name, n in engines.items())}"


def _layouts(rows: list[Row]) -> str:
    follow = [row["case"] for row in rows if row["others_by_threads"]]
    told = f"{len(follow)} of {len(rows)} follow the threads, which config.json tells"
    settings = f"{len(rows)} of {2 * len(mechanism_names())} settings"
    return f"{_all(rows)} runs of {settings}; {told}"


class Fault(NamedTuple):
    """What was done, the test that does it, and how its rows are told."""

    done: str
    file: str
    word: str
    result: Callable[[list[Row]], str]


_PROCESSES = "tests/run/test_faults_of_processes.py"
FAULTS = {
    "killed": Fault(
        "`kill -9`, by strace, at a system call that changes a file (open, write, "
        "sync, rename, make, remove): a folder's writer and a training go on to the "
        "same bytes, and no client has sent what its ledger did not count",
        _PROCESSES,
        "killed",
        _each,
    ),
    "budget": Fault(
        "a site's log deleted, restored, cloned, changed, signed anew; a full disk, a "
        "clock set back, kills and two processes; requests that may not be answered: "
        "refused in a sentence, or counted, and no second budget",
        "tests/deploy/test_faults_of_sites.py",
        "",
        _tried,
    ),
    "of two": Fault(
        "two processes at once on one folder: one writes, the other says who",
        _PROCESSES,
        "of_two",
        _waited,
    ),
    "memory": Fault(
        "memory exhausted while saving and loading: what was saved is there",
        _PROCESSES,
        "memory",
        _exhausted,
    ),
    "power": Fault(
        "the power fails: what fsync has put on the disk stays, each other change of a "
        "name or a page happened or not; what was reported as saved is there",
        "tests/run/test_faults_of_power.py",
        "power",
        _each,
    ),
    "damaged": Fault(
        "files that Hypothesis damages, of which a reader may take 30 seconds, 20 "
        "times the file and 1 GiB: read, or refused in a sentence",
        "tests/datasets/test_fuzz.py",
        "damage",
        _fuzzed,
    ),
    "odd values": Fault(
        "one value of a JSON file replaced by another type, a number that is none or "
        "too large, or nothing, also in a log that its site signs anew: read, or "
        "refused in a sentence",
        "tests/datasets/test_odd_values.py",
        "odd",
        _all,
    ),
    "layouts": Fault(
        "1, 2 and 8 devices × 1, 2 and 4 threads × ε of .3, .5 and .7, for every "
        "mechanism on 8×8 and 32×32: the devices change no bit",
        "tests/engine/test_placement.py",
        "threads",
        _layouts,
    ),
    "workers": Fault(
        "`kill -9` of a worker of a sweep, or of all its processes, at ten moments: it "
        "ends, or `--resume` ends it, with the bytes of one process",
        "tests/experiments/test_sweep_workers.py",
        "killed",
        _each,
    ),
    "two devices": Fault(
        "a sweep of fedsva, four ε and six seeds, 60 rounds, dealt to two devices: the "
        "parameters of one process",
        "tests/experiments/test_sweep_workers.py",
        "two_devices",
        _each,
    ),
    "noise": Fault(
        "calls of every mechanism × release, simulated and deployed, with any bits for "
        "R: every upload has its noise, and no ledger exceeds its promise",
        "tests/deploy/test_drawn_calls.py",
        "drawn",
        _all,
    ),
    "others' noise": Fault(
        "settings of other engines, whose own code draws the noise: its standard "
        "deviation is what `fedsvp check` says, to 3 % (of SVT the scale, to 15 %)",
        "tests/deploy/test_engines.py",
        "",
        _by_engine,
    ),
    "file size": Fault(
        "a limit on the size of files: one sentence, and the run resumes to the same "
        "bytes",
        "tests/experiments/test_fault_campaign.py",
        "limit",
        _all,
    ),
}


def of_fault(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if row["fault"] == name]


def summary(rows: list[Row]) -> str:
    """One line per fault, with the test that does it again."""
    return markdown(
        [
            {
                "what was done": fault.done,
                "file, word": f"`{fault.file}`"
                + f", `{fault.word}`" * bool(fault.word),
                "held": fault.result(chosen) if chosen else "no kept row yet",
            }
            for name, fault in FAULTS.items()
            for chosen in [of_fault(rows, name)]
        ]
    )


def _more(row: Row) -> str:
    known = ("fault", "case", "tried", "held", "provenance")
    words = {key: value for key, value in row.items() if key not in known}
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in words.items())


def details(rows: list[Row]) -> str:
    """One line per kept row but those of `sites`."""
    return markdown(
        [
            _case(row) | {"also counted": _more(row)} | _when(row)
            for row in rows
            if "came_back" not in row
        ]
    )


def sites(rows: list[Row]) -> str:
    """What was tried on a site's budget, and what came back."""
    return markdown(
        [
            {
                "tried": row["case"],
                "times": f"{row['tried']:,}",
                "came back": row["came_back"],
            }
            | _when(row)
            for row in of_fault(rows, "budget")
        ]
    )


def _case(row: Row) -> dict[str, str]:
    return {
        "fault": row["fault"],
        "case": row["case"],
        "tried": f"{row['tried']:,}",
        "held": f"{row['held']:,}",
    }


def _when(row: Row) -> dict[str, str]:
    stamp = row["provenance"]
    return {"commit": f"`{stamp['commit'][:7]}`", "date": stamp["date"][:10]}


def blocks(docs: Path) -> dict[str, Callable[[], str]]:
    """The blocks of docs/testing.md and of its tables."""
    rows = kept_rows.read(docs / FILE)
    return {
        "faults": lambda: summary(rows),
        "each_fault": lambda: details(rows),
        "sites": lambda: sites(rows),
    }
