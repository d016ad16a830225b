"""A site of a real federation: what it promises, and its log, which is begun once.

Of a federation over tables, whose sums nobody sees the parts of (docs/deploy.md),
`propose` writes the FOLDER that `flwr run` takes, by the defaults of --goal=proved. It
needs no record: K hospitals have N training rows together and M at most. Each hospital
gets the folder, and `join` begins its log of its own table. `node` verifies log and
table, and runs Flower's node on them; it starts again where the node ends, as it does
when the server is away. `test` scores a model of this federation on the rows of that
table that were kept out of the training; what it prints stays there. `init` begins the
log of a site whose training is its own.

Every log is a budget of its own. Logs that were begun on this machine of a table's
path or content are listed in your account's folder, and another one needs --again.
Tables that were changed and moved, other machines and other accounts are not seen.

SETTINGS are those of `fedsvp train`: the mechanism, its noise, the number of rounds,
the promise. They stand in the log, and nothing that a server sends changes them. The
promise holds at --target_delta, and where that is left out at --delta if it is smaller.
FILE.key, beside the log, signs every entry. --witness is a folder that should lie
elsewhere, on another disk or machine; it knows a site by its log's name. --records
binds the log to files (or folders) of records.

Exit status: 0 done; 2 bad input, or the site has begun already (one line says why).

What each reads; a flag of another is refused:
"""

import dataclasses
import functools
import pathlib
import re
import shutil
import socket
import subprocess
import time
from typing import Any

import numpy as np
from absl import flags

from fedsvp_jax.run import plugin

from . import command, goal, messages, unread_flags

flags.DEFINE_string("log", None, "The site's log.")
flags.DEFINE_integer("num_examples", None, "Training examples; public from now on.")
flags.DEFINE_integer(
    "min_num_examples", None, "Training examples of the smallest site."
)
flags.DEFINE_integer("max_num_examples", None, "Training examples of the largest site.")
_WITNESS = flags.DEFINE_string("witness", None, "Folder of the witness.")
_RECORDS = flags.DEFINE_multi_string("records", [], "File or folder of records.")
_AGAIN = flags.DEFINE_bool("again", False, "Another budget of the same records.")
_USAGE = {
    "propose": "FOLDER --schema=FILE --num_clients=K --num_examples=N\n"
    "      --max_num_examples=M --total_epsilon=E [--colluders=H]\n"
    "      [SETTINGS but not dataset, data_dir, test_data, classes, label_column,\n"
    "      client_column, drop_columns, partition, split, corruption, client_values,\n"
    "      num_hbc_clients, influence_filter, validation_examples, publish_scores]",
    "join": "FOLDER --records=TABLE --log=FILE [--witness=FOLDER] [--again]",
    "node": "--log=FILE [--witness=FOLDER] -- [FLAGS of flower-supernode]",
    "test": "MODEL --log=FILE [--witness=FOLDER]",
    "init": "--log=FILE --num_examples=N --min_num_examples=M\n"
    "      [--witness=FOLDER] [--records=FILE] [--again] [SETTINGS]",
}
_PAUSE = 10  # seconds before a node is started again


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
        "colluders": max(min(2, clients - 1), clients // 3),
    }
    command.default_settings(values, defaults)
    schema = read_schema(pathlib.Path(values.schema))
    rows = tables.blank_rows(schema, [largest, *map(len, single)])
    route = goal.settings("proved", values, rows)
    route |= {"partition": "iid", "secret_noise": False}
    command.default_settings(values, route)
    config = command.settings_from_flags(values)
    unread_flags.refuse(values, [config.mechanism], config)
    policy = tables.propose(folder, config, schema)
    print(messages.filled("site.txt", policy=policy))
    command.print_files(sorted(folder.iterdir()))


def _client(values: Any) -> Any:
    """Of a site's log and table, with the witness with which `join` began it."""
    from fedsvp_jax.deploy import tables

    from . import budgets

    witness = _WITNESS.value or budgets.witness(values.log)
    return tables.table_client(values.log, witness=witness)


def _test(model: pathlib.Path, values: Any) -> None:
    from fedsvp_jax import run
    from fedsvp_jax.data.tables import scores
    from fedsvp_jax.deploy import tables
    from fedsvp_jax.report import headline

    client = _client(values)
    client.site.read()
    trained = run.load_model(model)
    if trained.settings.get("agreement") != client.policy.agreement:
        raise ValueError(
            f"{model} is not of the federation that {values.log} joined: its settings, "
            "its schema or its version of fedsvp_jax are others"
        )
    rows = tables.table_rows(client.policy)
    chances = trained.probabilities(rows.test_inputs)
    of_rows = scores.of_table(chances, rows.test_labels, rows.class_names)
    print(headline.filled("quality", {"test_scores": of_rows}))
    print("These rows stay with you, and so do these scores: no ε covers them.")


def _node(words: list[str], values: Any) -> None:
    """Runs Flower's node on a log that can answer, for ever."""
    client = _client(values)
    if shutil.which("flower-supernode") is None:
        raise ValueError(
            "flower-supernode is not installed: pip install 'fedsvp_jax[flower]'"
        )
    print(messages.filled("site.txt", policy=client.policy, site=client.site))
    places = f'log="{client.site.path}" witness="{client.site.witness.path}"'
    node = ("flower-supernode", *words, "--node-config", places)
    _check_port(words)
    while subprocess.run(node, check=False).returncode != 2:  # of wrong flags
        print(f"The node ended. It starts again in {_PAUSE} seconds.", flush=True)
        time.sleep(_PAUSE)


def _check_port(words: list[str]) -> None:
    """Raises ValueError: another program has the port of Flower's node."""
    port = int((re.findall(r"--port[ =](\d+)", " ".join(words)) or [9094])[-1])
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise ValueError(
            f"port {port} of this machine is taken ({error.strerror}), as by another "
            "node: choose one, as in -- --port 9101"
        ) from error


def _begin(folder: list[str], values: Any) -> None:
    """Of a table that joins the federation of a folder, or of any training."""
    from fedsvp_jax.deploy import Site, fingerprint, make_policy, tables

    from . import budgets

    if folder:
        policy = tables.read_policy(pathlib.Path(*folder), _RECORDS.value[0])
        client = tables.table_client(values.log, policy, witness=_WITNESS.value)
        site, start = client.site, client.begin
    else:
        # The site's own data, of which the defaults are, are read by its training.
        command.default_settings(values, {"dataset": "npz"})
        config = command.settings_from_flags(values)
        if config.delta is not None and not values["target_delta"].present:
            delta = min(config.delta, config.target_delta)
            config = dataclasses.replace(config, target_delta=delta)
        policy = make_policy(config, min_num_examples=values.min_num_examples)
        data = fingerprint(*_RECORDS.value) if _RECORDS.value else None
        site = Site(values.log, policy, witness=_WITNESS.value, data=data)
        start = functools.partial(site.begin, values.num_examples)
    all_of = budgets.begin(site, start, _RECORDS.value, again=_AGAIN.value)
    print(messages.filled("site.txt", policy=policy, site=site, budgets=all_of))
    command.print_files([site.path, f"{site.path}.key"])


def _check_flags(verb: str, values: Any) -> None:
    """Raises ValueError: a flag that the verb needs is absent, or one is not read."""
    usage = _USAGE[verb]
    needed = re.findall(r" --(\w+)=", " " + usage)
    if absent := [f"--{name}" for name in needed if not values[name].value]:
        raise ValueError(f"state {' and '.join(absent)}")
    fields = dataclasses.fields(plugin.config_class())
    settings = {"config", *(field.name for field in fields)}
    by_verb = {verb: {*re.findall(r"--(\w+)", text)} for verb, text in _USAGE.items()}
    _, takes, but = usage.partition("[SETTINGS")
    reads = by_verb[verb] | (settings - {*re.findall(r"\w+", but)} if takes else set())
    unread = sorted(settings.union(*by_verb.values()) - reads)
    if typed := [f"--{name}" for name in unread if values[name].present]:
        raise ValueError(f"site {verb} does not read {' and '.join(typed)}: remove it")


def main(arguments: list[str]) -> None:
    """Does what the first word says."""
    values = flags.FLAGS
    verb, *words = arguments[1:] or [""]
    if verb not in _USAGE:
        raise ValueError(f"say site and one of {', '.join(_USAGE)}, got {verb!r}")
    if verb != "node" and len(words) != (verb != "init"):
        raise ValueError(f"say site {verb} {_USAGE[verb]}")
    _check_flags(verb, values)
    match verb:
        case "propose":
            _propose(pathlib.Path(*words), values)
        case "node":
            _node(words, values)
        case "test":
            _test(pathlib.Path(*words), values)
        case _:
            _begin(words, values)


if __name__ == "__main__":
    command.define_settings()
    usage = [f"  fedsvp site {verb} {text}" for verb, text in _USAGE.items()]
    command.run(main, "\n".join([__doc__, *usage]), takes_arguments=True)
