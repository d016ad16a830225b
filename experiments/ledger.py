"""Verifies a site's log, adds it up by another accountant, and writes a page of it.

  fedsvp ledger FILE [--witness=FOLDER] [--site_key=KEY] [--page=FILE]

FILE is the log that `fedsvp site init` began. Every entry must follow the one before it
and have the site's signature and its witness's; dp-accounting adds up what was sent,
and the sum is compared with what the site recorded and promised. --witness is the
witness's folder, or its file SITE.seen.json, which tells whether entries are missing at
the end;
--site_key the public key that the site is known by. The page is one file that needs no
network.

Exit status: 0 all is in order; 1 something is not, and is named; 2 bad input.
"""

import pathlib
import sys

from absl import flags

from . import command, messages

_WITNESS = flags.DEFINE_string(
    "witness", None, "Folder of the witness, or its SITE.seen.json."
)
_SITE_KEY = flags.DEFINE_string("site_key", None, "Public key of the site.")
_PAGE = flags.DEFINE_string("page", None, "Where the auditor's page is written.")


def main(arguments: list[str]) -> None:
    """Prints the ledger, and ends with 1 where something is not in order."""
    from fedsvp_jax.report import ledger

    if len(arguments) != 2:
        raise ValueError("name one log")
    witness = None if _WITNESS.value is None else pathlib.Path(_WITNESS.value)
    site_ledger = ledger.audit(pathlib.Path(arguments[1]), witness, _SITE_KEY.value)
    print(
        messages.filled(
            "ledger.txt",
            ledger=site_ledger,
            rows=ledger.table(site_ledger),
            facts=ledger.facts(site_ledger),
        ),
        end="",
    )
    if _PAGE.value is not None:
        command.print_files([ledger.write_page(site_ledger, pathlib.Path(_PAGE.value))])
    if site_ledger.problems:
        sys.exit(1)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
