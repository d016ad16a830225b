"""The budgets of records: logs that were begun of one table on this machine.

A log counts what it spent itself, and two logs of one table add up, each in a training
of its own: in a sum of one both would move it. So an account's folder keeps a line for
each log that `fedsvp site` begins of records: where they lie, a hash of what they hold,
what was promised, and the proposal's `run_id`. Records are the same where one of both
is. Records that were changed and moved, another account and another machine are not
seen.
"""

import fcntl
import functools
import json
import math
import os
import pathlib
from collections.abc import Callable, Sequence

from fedsvp_jax.core.files import AnyPath, Record, make_folder, replace_file
from fedsvp_jax.deploy import Site, fingerprint

from . import messages


def begin(
    site: Site, start: Callable[[], None], records: Sequence[str], *, again: bool
) -> list[Record]:
    """Begins a site's log, and notes its budget; all budgets of the records, in order.

    Args:
      site: whose log is to be begun.
      start: begins it.
      records: files or folders.
      again: whether it may be another budget of the same records.

    Raises:
      ValueError: there is such a budget, and not `again`, or it is of one training with
        this one's.
      OSError: as `start`; the list cannot be written.
    """
    promise, path = site.policy.says(), _path()
    run_id = site.policy.asked["run_id"]
    names = {*map(os.path.realpath, records), *map(fingerprint, records)}
    make_folder(path.parent)
    with open(path, "a", opener=functools.partial(os.open, mode=0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of two begun at once the other comes later
        budgets = [b for b in _read() if names & {*b["records"]}]
        refusing = [
            b for b in budgets if not again or (run_id and b.get("run_id") == run_id)
        ]
        if refusing and not site.path.exists():
            raise ValueError(
                messages.filled(
                    "budgets.txt",
                    budgets=refusing,
                    run_id=run_id,
                    records=records,
                    path=path,
                )
            )
        budget = promise | {
            "total_epsilon": promise["total_epsilon"] or math.inf,
            "log": str(site.path),
            "witness": str(site.witness.path),
            "records": sorted(names),
            "run_id": run_id,
        }
        end = file.seek(0, os.SEEK_END)
        file.write(json.dumps(budget) + "\n")
        file.flush()  # before the log: a kill between both lets none begin unasked
        try:
            start()
        except BaseException:
            file.truncate(end)
            raise
    return [*budgets, budget]


def forget(log: AnyPath) -> None:
    """Takes the budgets of a log off the list.

    Raises:
      ValueError: the list is damaged.
    """
    name, path = os.path.realpath(log), _path()
    if path.is_file():
        remaining = (json.dumps(b) + "\n" for b in _read() if b["log"] != name)
        replace_file(path, "".join(remaining).encode(), mode=0o600)


def of_log(log: AnyPath) -> list[Record]:
    """The budgets of a log's records, its own last; none where it was begun elsewhere.

    Raises:
      ValueError: the list is damaged.
    """
    name = os.path.realpath(log)
    budgets = sorted(_read(), key=lambda budget: budget["log"] == name)
    records = {r for b in budgets if b["log"] == name for r in b["records"]}
    return [b for b in budgets if b["log"] == name or records & {*b["records"]}]


def witness(log: AnyPath) -> str | None:
    """The witness's folder with which a log was begun on this machine."""
    budgets = of_log(log)
    return budgets[-1]["witness"] if budgets else None


def _path() -> pathlib.Path:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(state, "fedsvp_jax", "budgets.jsonl")


def _read() -> list[Record]:
    """The budgets of all lines, of which one may be deleted by hand."""
    path = _path()
    lines = path.read_text().splitlines() if path.is_file() else ()
    try:
        budgets = [*map(json.loads, filter(str.strip, lines))]
        _ = [
            {b["log"], b["witness"], b["total_epsilon"], *b["records"]} for b in budgets
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged, so nobody sees whether the records have a budget: "
            "mend or delete its line"
        ) from error
    return budgets
