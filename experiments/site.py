"""A site of a real federation: what it promises, and its log, which is begun once.

Of a federation over tables, whose sums nobody sees the parts of (docs/deploy.md), the
coordinator says `propose`, and each hospital `join`, `node` and `test`; a site whose
training is its own says `init`. `fedsvp site VERB --help` is of a verb alone.

Every log is a budget of its own. Logs that were begun on this machine of a table's
path or content are listed in your account's folder, and another one needs --again, and
to `join` another proposal. Tables that were changed and moved, other machines and other
accounts are not seen.

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
import fcntl
import functools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
from typing import Any

from absl import flags

from fedsvp_jax.core.files import toml_beside
from fedsvp_jax.run import plugin

from . import command, goal, messages, unread_flags

command.define("site")
_VERBS = toml_beside(__file__, "site.toml")
_USAGE = _VERBS["usage"]
_PAUSE = 10  # seconds before a node is started again
# Linux kills Flower's node with ours (PR_SET_PDEATHSIG): after `kill -9` it went on
# answering. The processes that Flower's node starts end by themselves without it.
_LINKED = """import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[2], sys.argv[2:])"""


def _propose(words: list[str], values: Any) -> None:
    """Writes the coordinator's folder."""
    from fedsvp_jax.data.tables.schema import read_schema
    from fedsvp_jax.data.tables.table import blank_rows
    from fedsvp_jax.deploy import tables

    sizes = goal.stated_sizes(
        values.num_clients, values.num_examples, values.max_num_examples
    )
    command.default_settings(values, _VERBS["defaults"])
    schema = read_schema(pathlib.Path(values.schema))
    route = goal.settings("proved", values, blank_rows(schema, sizes))
    command.default_settings(values, route | _VERBS["route"])
    config = command.settings_from_flags(values)
    unread_flags.refuse(values, [config.mechanism], config)
    folder = pathlib.Path(*words)
    policy = tables.propose(folder, config, schema)
    print(messages.filled("site.txt", policy=policy, num_examples=values.num_examples))
    command.print_folder(folder)


def _client(values: Any) -> Any:
    """Of a site's log and table, with the witness with which `join` began it."""
    from fedsvp_jax.deploy import tables

    from . import budgets

    return tables.table_client(
        values.log, witness=values.witness or budgets.witness(values.log)
    )


def _test(words: list[str], values: Any) -> None:
    """Scores a federation's model on a site's own rows for the test."""
    from fedsvp_jax import run
    from fedsvp_jax.data.tables import scores
    from fedsvp_jax.deploy import tables

    client = _client(values)
    client.site.read()
    trained = run.load_model(words[0])
    if trained.settings.get("agreement") != client.policy.agreement:
        raise ValueError(
            f"{words[0]} is not of the federation that {values.log} joined: its "
            "settings, its schema or its version of fedsvp_jax are others"
        )
    rows = tables.table_rows(client.policy)
    parts = (rows.test_inputs, rows.test_labels), (rows.train_inputs, rows.train_labels)
    of_parts = [
        scores.of_table(trained.probabilities(inputs), labels, rows.class_names)
        for inputs, labels in parts
    ]
    print(messages.filled("tested.txt", of_parts=of_parts), end="")


def _abandon(_: list[str], values: Any) -> None:
    """Deletes a log that has answered no round, and what is known of it."""
    from fedsvp_jax.deploy.witness import read_seen, seen_file

    from . import budgets

    log = pathlib.Path(values.log)
    folder = values.witness or budgets.witness(log) or log.parent / "witness"
    place = seen_file(pathlib.Path(folder), log.name)
    with log.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        seen = read_seen(place, log.name)
        if file.read().count(b"\n") > 1 or (seen and seen.number > 1):
            raise ValueError(f"{log} has answered a round: what it spent stays counted")
        # A kill between these leaves a log that nothing can answer for.
        for path in (pathlib.Path(f"{log}.key"), place):
            path.unlink(missing_ok=True)
        budgets.forget(log)
        log.unlink()
    print(f"{log} is deleted, and so is its budget, of which nothing was spent")


def _node(words: list[str], values: Any) -> None:
    """Runs Flower's node on a log that can answer, for ever."""
    print("Reading log and table; then waiting for the server …", flush=True)
    client = _client(values)
    if shutil.which("flower-supernode") is None:
        raise ValueError(
            "flower-supernode is not installed: pip install 'fedsvp_jax[flower]'"
        )
    print(messages.filled("site.txt", policy=client.policy, site=client.site))
    node = [
        sys.executable,
        "-c",
        _LINKED,
        str(os.getpid()),
        "flower-supernode",
        *words,
        "--node-config",
        f'log="{client.site.path}" witness="{client.site.witness.path}"',
    ]
    port = int((re.findall(r"--port[ =](\d+)", " ".join(words)) or [9094])[-1])
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise ValueError(
            f"port {port} of this machine is taken ({error.strerror}). `ps axww | grep "
            "node` shows what runs: end an earlier node of this log by kill NUMBER, "
            "first that of `fedsvp site node`. If there is none, choose a port, as in "
            "-- --port 9101"
        ) from error
    while subprocess.run(node, check=False).returncode != 2:  # of wrong flags
        print(_VERBS["ended"].format(_PAUSE), flush=True)
        time.sleep(_PAUSE)


def _begin(folder: list[str], values: Any) -> None:
    """Of a table that joins the federation of a folder, or of any training."""
    from fedsvp_jax.deploy import Site, fingerprint, make_policy, tables

    from . import budgets

    if folder:
        policy = tables.read_policy(pathlib.Path(*folder), values.records[0])
        rows = tables.table_rows(policy)
        messages.check_units("join", rows, rows.schema, values)
        client = tables.table_client(
            values.log, policy, witness=values.witness, rows=rows
        )
        site, start = client.site, client.begin
    else:
        # The site's own data, of which the defaults are, are read by its training.
        command.default_settings(values, {"dataset": "npz"})
        config = command.settings_from_flags(values)
        if config.delta is not None and not values["target_delta"].present:
            config = dataclasses.replace(
                config, target_delta=min(config.delta, config.target_delta)
            )
        policy = make_policy(config, min_num_examples=values.min_num_examples)
        data = fingerprint(*values.records) if values.records else None
        site = Site(values.log, policy, witness=values.witness, data=data)
        start = functools.partial(site.begin, values.num_examples)
    try:
        all_of = budgets.begin(site, start, values.records, again=values.again)
    finally:
        if folder and site.path.exists():  # of a table that was refused none does
            print(messages.filled("rows.txt", rows=rows, log=values.log))
    print(messages.filled("site.txt", policy=policy, site=site, budgets=all_of))
    command.print_files([site.path, f"{site.path}.key"])


def _reads(verb: str) -> set[str]:
    """The flags that a verb reads; a flag of its usage is not among the settings."""
    of_usage, takes, but = _USAGE[verb].partition("[SETTINGS")
    fields = dataclasses.fields(plugin.config_class())
    settings = {"config", *(field.name for field in fields)} if takes else set()
    return settings - {*re.findall(r"\w+", but)} | {*re.findall(r"--(\w+)", of_usage)}


def main(arguments: list[str]) -> None:
    """Does what the first word says."""
    values = flags.FLAGS
    verb, *words = arguments[1:] or [""]
    if verb not in _USAGE:
        raise ValueError(f"say site and one of {', '.join(_USAGE)}, got {verb!r}")
    if verb != "node" and len(words) != (verb not in ("init", "abandon")):
        raise ValueError(f"say site {verb} {_USAGE[verb]}")
    needed = re.findall(r" --(\w+)=", " " + _USAGE[verb])
    if absent := [f"--{name}" for name in needed if not values[name].value]:
        raise ValueError(f"state {' and '.join(absent)}")
    unread = set().union(*map(_reads, _USAGE)) - _reads(verb)
    if typed := [f"--{name}" for name in sorted(unread) if values[name].present]:
        raise ValueError(f"site {verb} does not read {' and '.join(typed)}: remove it")
    acts = {"propose": _propose, "node": _node, "test": _test, "abandon": _abandon}
    try:
        acts.get(verb, _begin)(words, values)
    except ValueError as error:
        sentence = str(error)
        for advice, words in _VERBS["advice"].items():
            sentence = re.sub(advice, words, sentence)
        raise ValueError(sentence) from error


if __name__ == "__main__":
    command.define_settings()
    usage = {verb: f"  fedsvp site {verb} {text}" for verb, text in _USAGE.items()}
    purpose, described = "\n".join([__doc__, *usage.values()]), None
    if (verb := sys.argv[:2][-1]) in usage:
        purpose = f"{_VERBS['about'][verb]}\n\n{usage[verb]}"
        described = _reads(verb) | {"plugin"}
        # What a hospital needs, in its words.
        if "--helpfull" not in sys.argv and (flag_texts := _VERBS["flags"].get(verb)):
            purpose, described = purpose.partition("[SETTINGS")[0] + flag_texts, set()
    command.run(main, purpose, takes_arguments=True, described=described)
