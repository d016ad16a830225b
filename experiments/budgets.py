"""The budgets of records: logs that were begun of one table on this machine.

A log counts what it spent itself, and two logs of one table add up. So an account's
folder keeps a line for each log that `fedsvp site` begins of records: where they lie,
a hash of what they hold, and what was promised. Records are the same where one of both
is. Records that were changed and moved, another account and another machine are not
seen.
"""

import functools
import json
import math
import os
import pathlib
from collections.abc import Callable, Sequence

from fedsvp_jax.core.files import Record, make_folder
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
      ValueError: there is such a budget, and not `again`.
      OSError: as `start`; the list cannot be written.
    """
    promise, log = site.policy.says(), os.fspath(site.path)
    names = {*map(os.path.realpath, records), *map(fingerprint, records)}
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    path = pathlib.Path(state, "fedsvp_jax", "budgets.jsonl")
    make_folder(path.parent)
    with open(path, "a+", opener=functools.partial(os.open, mode=0o600)) as file:
        file.seek(0)
        lines = [*filter(str.strip, file)]  # one may be deleted by hand
        try:
            budgets = [b for b in map(json.loads, lines) if names & {*b["records"]}]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path} is damaged, so nobody sees whether the records have a budget: "
                "mend or delete its line"
            ) from error
        if budgets and not again and not site.path.exists():
            values = {"budgets": budgets, "records": records, "path": path}
            raise ValueError(messages.filled("budgets.txt", **values))
        start()
        budget = {
            "log": log,
            "epsilon": promise["total_epsilon"] or math.inf,
            "delta": promise["target_delta"],
            "relation": promise["relation"],
            "records": sorted(names),
        }
        file.write(json.dumps(budget) + "\n")
    return [*budgets, budget]
