"""Begins a site's log, once: what it promises, and what it has spent from then on.

  fedsvp site init --log=FILE --num_examples=N --min_num_examples=M
      [--witness=FOLDER] [--records=FILE] SETTINGS

SETTINGS are those of `fedsvp train`: the mechanism, its noise, the number of rounds,
the promise. They stand in the log, and nothing that a server sends changes them. The
promise holds at --target_delta, and where that is left out at --delta if it is smaller.
FILE.key, beside it, signs every entry. --witness is a folder that should lie elsewhere,
on another disk or machine; it knows a site by its log's name. --records binds the log
to files (or folders) of records.

Exit status: 0 done; 2 bad input, or the site has begun already (one line says why).
"""

import dataclasses
import os

from absl import flags

from . import command

_LOG = flags.DEFINE_string("log", None, "The log to begin.", required=True)
_NUM = flags.DEFINE_integer(
    "num_examples", None, "Training examples; public from now on.", required=True
)
_LEAST = flags.DEFINE_float(
    "min_num_examples", None, "Training examples of the smallest site.", required=True
)
_WITNESS = flags.DEFINE_string("witness", None, "Folder of the witness.")
_RECORDS = flags.DEFINE_multi_string("records", [], "File or folder of records.")


def main(arguments: list[str]) -> None:
    """Writes the log, its key and the witness's file."""
    from fedsvp_jax.deploy import Site, fingerprint, make_policy

    if arguments[1:] != ["init"]:
        raise ValueError("say `site init`")
    # The site's own data, of which the defaults are, are read by its training alone.
    command.default_settings(flags.FLAGS, {"dataset": "npz"})
    config = command.settings_from_flags(flags.FLAGS)
    if config.delta is not None and not flags.FLAGS["target_delta"].present:
        delta = min(config.delta, config.target_delta)
        config = dataclasses.replace(config, target_delta=delta)
    policy = make_policy(config, min_num_examples=_LEAST.value)
    site = Site(
        _LOG.value,
        policy,
        witness=_WITNESS.value,
        data=fingerprint(*_RECORDS.value) if _RECORDS.value else None,
    )
    site.begin(_NUM.value)
    print(f"site {site.name}: public key {site.public_key}")
    for name, value in policy.says().items():
        if name != "solve":  # which is done, and `uploads` from here on
            print(f"{name}: {value}")
    command.print_files([os.fspath(site.path), f"{site.path}.key"])


if __name__ == "__main__":
    command.define_settings()
    command.run(main, __doc__, takes_arguments=True)
