"""Verifies a site's log, adds it up by another accountant, and writes a page of it.

  fedsvp ledger FILE [--witness=FOLDER] [--site_key=KEY] [--page=FILE]

FILE is the log that `fedsvp site` began. Every entry must follow the one before it and
have the site's signature and its witness's; dp-accounting adds up what was sent, and
the sum is compared with what the site recorded and promised. --witness is the witness's
folder, or its file SITE.seen.json, which tells whether entries are missing at the end;
by default the folder with which the log was begun on this machine, or `witness` beside
the log. --site_key is the public key that the site is known by. Beside this log the
page, one file that needs no network, counts all others that this account began of the
same records.

Exit status: 0 all is in order; 1 something is not, and is named; 2 bad input.
"""

import pathlib
import sys

from absl import flags

from . import command, messages

command.define("ledger")


def main(arguments: list[str]) -> None:
    """Prints the ledger, and ends with 1 where something is not in order."""
    from fedsvp_jax.report import ledger, page

    from . import budgets

    if len(arguments) != 2:
        raise ValueError("name one log")
    log, values = pathlib.Path(arguments[1]), flags.FLAGS
    folder, all_of = values.witness or budgets.witness(log), budgets.of_log(log)
    witness = pathlib.Path(folder) if folder else None
    site_ledger = ledger.audit(log, witness, values.site_key)
    print(messages.filled("ledger.txt", ledger=site_ledger, budgets=all_of), end="")
    if values.page is not None:
        path = pathlib.Path(values.page)
        page.write(path, "ledger.html", ledger=site_ledger, budgets=all_of)
        command.print_files([path])
    if site_ledger.problems:
        sys.exit(1)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
