"""A site of a real federation: what it promises, and its log, which is begun once.

A federation over tables, whose sums nobody sees the parts of (docs/deploy.md):

  fedsvp site propose FOLDER --schema=FILE --num_clients=K --num_examples=N
      --max_num_examples=M --total_epsilon=E [--colluders=H] [SETTINGS]
  fedsvp site join FOLDER --records=TABLE --log=FILE [--witness=FOLDER]
  fedsvp site test MODEL --log=FILE [--witness=FOLDER]

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
from typing import Any

import numpy as np
from absl import flags

from . import command, goal

flags.DEFINE_string("log", None, "The site's log.")
flags.DEFINE_integer("num_examples", None, "Training examples; public from now on.")
flags.DEFINE_integer(
    "min_num_examples", None, "Training examples of the smallest site."
)
flags.DEFINE_integer("max_num_examples", None, "Training examples of the largest site.")
_WITNESS = flags.DEFINE_string("witness", None, "Folder of the witness.")
_RECORDS = flags.DEFINE_multi_string("records", [], "File or folder of records.")
_NEEDED = {  # by each verb
    "init": ("log", "num_examples", "min_num_examples"),
    "propose": ("schema", "num_clients", "num_examples", "max_num_examples"),
    "join": ("log", "records"),
    "test": ("log",),
}


def _propose(folder: pathlib.Path, values: Any) -> None:
    from fedsvp_jax.data.tables.schema import read_schema
    from fedsvp_jax.deploy import tables

    clients, largest = values.num_clients, values.max_num_examples
    single = np.array_split(range(values.num_examples - largest), clients - 1)
    if not 1 <= len(single[-1]) <= len(single[0]) <= largest:
        raise ValueError(
            f"num_examples must be those of all {clients} sites together, of which one "
            f"has max_num_examples = {largest}, got {values.num_examples}"
        )
    defaults = {
        "dataset": "csv",
        "client_column": "none",
        "noise_trust": "secure_aggregation",
        "noise_sampler": "discrete",
        "colluders": max(2, clients // 3),
    }
    command.default_settings(values, defaults)
    schema = read_schema(pathlib.Path(values.schema))
    rows = tables.blank_rows(schema, [largest, *map(len, single)])
    route = goal.settings("proved", values, rows)
    route |= {"partition": "iid", "secret_noise": False}
    command.default_settings(values, route)
    config = command.settings_from_flags(values)
    _print_promise(tables.propose(folder, config, schema))
    command.print_files(sorted(folder.iterdir()))


def _test(model: pathlib.Path, values: Any) -> None:
    from fedsvp_jax import run
    from fedsvp_jax.data.tables import scores
    from fedsvp_jax.deploy import Site, tables
    from fedsvp_jax.report import headline

    rows = tables.table_rows(Site(values.log, witness=_WITNESS.value).policy)
    chances = run.load_model(model).probabilities(rows.test_inputs)
    of_rows = scores.of_table(chances, rows.test_labels, rows.class_names)
    print(headline.filled("quality", {"test_scores": of_rows}))
    print("These rows stay with you, and so do these scores: no ε covers them.")


def _begin(folder: list[str], values: Any) -> None:
    """Of a table that joins the federation of a folder, or of any training."""
    from fedsvp_jax.deploy import Site, fingerprint, make_policy, tables

    if folder:
        policy = tables.read_policy(pathlib.Path(*folder), _RECORDS.value[0])
        client = tables.table_client(values.log, policy, witness=_WITNESS.value)
        client.begin()
        site = client.site
    else:
        # The site's own data, of which the defaults are, are read by its training.
        command.default_settings(values, {"dataset": "npz"})
        config = command.settings_from_flags(values)
        if config.delta is not None and not values["target_delta"].present:
            delta = min(config.delta, config.target_delta)
            config = dataclasses.replace(config, target_delta=delta)
        policy = make_policy(config, min_num_examples=values.min_num_examples)
        site = Site(
            values.log,
            policy,
            witness=_WITNESS.value,
            data=fingerprint(*_RECORDS.value) if _RECORDS.value else None,
        )
        site.begin(values.num_examples)
    print(f"site {site.name}: public key {site.public_key}")
    print(f"training examples: {site.read().num_examples}")
    _print_promise(policy)
    command.print_files([os.fspath(site.path), f"{site.path}.key"])


def _print_promise(policy: Any) -> None:
    from fedsvp_jax.report import headline

    facts = policy.says() | {"agreement": policy.agreement}
    claim = facts | {
        "delta": facts["target_delta"],
        "method": facts["total_accounting"],
    }
    if total := facts["total_epsilon"]:
        print(headline.privacy(facts | {"guarantees": [claim | {"epsilon": total}]}))
    for name, value in facts.items():
        if name != "solve":  # which is done, and `uploads` from here on
            print(f"{name}: {value}")


def main(arguments: list[str]) -> None:
    """Does what the first word says."""
    values = flags.FLAGS
    verb, *folder = arguments[1:] or [""]
    if verb not in _NEEDED or len(folder) != (verb != "init"):
        raise ValueError(
            "say `site init`, or `site propose`, `join` or `test` and a path"
        )
    if absent := [f"--{name}" for name in _NEEDED[verb] if not values[name].value]:
        raise ValueError(f"state {' and '.join(absent)}")
    match verb:
        case "propose":
            _propose(pathlib.Path(*folder), values)
        case "test":
            _test(pathlib.Path(*folder), values)
        case _:
            _begin(folder, values)


if __name__ == "__main__":
    command.define_settings()
    command.run(main, __doc__, takes_arguments=True)
