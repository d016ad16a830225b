"""Begins a site's log, once: what it promises, and what it has spent from then on.

A federation over tables, whose sums nobody sees the parts of (docs/deploy.md):

  fedsvp site propose FOLDER --schema=FILE --num_clients=K --num_examples=N
      --max_num_examples=M --total_epsilon=E [--colluders=H] [SETTINGS]
  fedsvp site join FOLDER --records=TABLE --log=FILE [--witness=FOLDER]
  fedsvp site test MODEL --log=FILE

`propose` writes the FOLDER that `flwr run` takes, by the defaults of --goal=proved. It
needs no record: K hospitals have N training rows together and M at most. Each hospital
gets the folder, and `join` begins its log of its own table. `test` scores a model on
the rows of that table that were kept out of the training; what it prints stays there.

A site whose training is its own:

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
import pathlib
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from . import command, goal

if TYPE_CHECKING:
    from fedsvp_jax.deploy import Policy, Site

_LOG = flags.DEFINE_string("log", None, "The site's log.")
_NUM = flags.DEFINE_integer(
    "num_examples", None, "Training examples; public from now on."
)
_LEAST = flags.DEFINE_integer(
    "min_num_examples", None, "Training examples of the smallest site."
)
_MOST = flags.DEFINE_integer(
    "max_num_examples", None, "Training examples of the largest site."
)
_WITNESS = flags.DEFINE_string("witness", None, "Folder of the witness.")
_RECORDS = flags.DEFINE_multi_string("records", [], "File or folder of records.")


def _stated(*names: str) -> None:
    """Refuses a command line that leaves out one of these flags."""
    if absent := [f"--{name}" for name in names if not flags.FLAGS[name].value]:
        raise ValueError(f"state {' and '.join(absent)}; fedsvp site --help says how")


def _propose(folder: pathlib.Path) -> None:
    from fedsvp_jax.data.tables.schema import read_schema
    from fedsvp_jax.deploy import tables

    _stated("schema", "num_clients", "num_examples", "max_num_examples")
    values, most = flags.FLAGS, flags.FLAGS.max_num_examples
    others, rest = values.num_clients - 1, values.num_examples - most
    if not others <= rest <= others * most:
        raise ValueError(
            f"num_examples must be those of all {others + 1} sites together, of which "
            f"one has max_num_examples = {most} and each has one, got "
            f"{values.num_examples}"
        )
    sizes = [most, *map(len, np.array_split(np.empty(rest), others))]
    schema = tables.at_one_site(read_schema(pathlib.Path(values.schema)))
    defaults = {
        "dataset": "csv",
        "noise_trust": "secure_aggregation",
        "noise_sampler": "discrete",
        "colluders": max(2, values.num_clients // 3),
    }
    command.default_settings(values, defaults)
    route = goal.settings("proved", values, tables.blank_rows(schema, sizes))
    route |= {"partition": "iid", "secret_noise": False}
    command.default_settings(values, route)
    config = command.settings_from_flags(values)
    policy = tables.propose(folder, config, schema, min_num_examples=_LEAST.value or 1)
    _print_promise(policy)
    print(
        f"sites: {config.num_clients} with {_LEAST.value or 1} to {most} training "
        f"rows; at most {config.colluders} away or curious"
    )
    command.print_files(sorted(folder.iterdir()))


def _join(folder: pathlib.Path) -> None:
    from fedsvp_jax.deploy import tables

    _stated("records", "log")
    (table,) = _RECORDS.value
    client = tables.join(folder, table, _LOG.value, _WITNESS.value)
    print(f"{table}: {client.num_examples} training rows")
    _print_site(client.site)


def _test(model: pathlib.Path) -> None:
    from fedsvp_jax import run
    from fedsvp_jax.data.tables import scores
    from fedsvp_jax.deploy import tables
    from fedsvp_jax.report import headline

    _stated("log")
    rows = tables.tested_rows(_LOG.value)
    chances = run.load_model(model).probabilities(rows.test_inputs)
    of_rows = scores.of_table(chances, rows.test_labels, rows.class_names)
    print(headline.filled("quality", {"test_scores": of_rows}))
    print("These rows stay with you, and so do these scores: no ε covers them.")


def _init() -> None:
    from fedsvp_jax.deploy import Site, fingerprint, make_policy

    _stated("log", "num_examples", "min_num_examples")
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
    _print_site(site)


def _print_promise(policy: "Policy") -> None:
    for name, value in policy.says().items():
        print(f"{name}: {value}")
    print(f"agreement: {policy.agreement}")


def _print_site(site: "Site") -> None:
    print(f"site {site.name}: public key {site.public_key}")
    _print_promise(site.policy)
    command.print_files([os.fspath(site.path), f"{site.path}.key"])


def main(arguments: list[str]) -> None:
    """Does what the first word says."""
    match arguments[1:]:
        case ["init"]:
            _init()
        case ["propose", folder]:
            _propose(pathlib.Path(folder))
        case ["join", folder]:
            _join(pathlib.Path(folder))
        case ["test", model]:
            _test(pathlib.Path(model))
        case _:
            raise ValueError(
                "say `site init`, `site propose FOLDER`, `site join FOLDER` or "
                "`site test MODEL`"
            )


if __name__ == "__main__":
    command.define_settings()
    command.run(main, __doc__, takes_arguments=True)
