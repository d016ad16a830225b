"""A federation over tables that stay where they are: proposed once, joined by each.

    propose        the coordinator's folder: public schema, settings, and Flower's app
    read_policy    what the folder states, for the owner of a table
    table_client   a hospital's client, of its log; the server's, of the schema alone

The folder holds no code and no record. It goes to every hospital before the first
round; from then on a hospital's log decides what it answers.
"""

import json
import os
import pathlib
import secrets
import warnings

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import AnyPath, read_json, write_json
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import Schema, read_schema, to_toml
from fedsvp_jax.data.tables.table import blank_rows
from fedsvp_jax.federation import loading

from .client import Client, own_data
from .noise import SECRET, Randomness
from .policy import Policy, make_policy
from .site import Site, policy_of

_SCHEMA, _SETTINGS = "schema.toml", "settings.json"
_MOST_DELTA = 0.01  # of a promise
_APP = """\
[project]
name = "tables"
version = "1.0.0"

[tool.flwr.app]
publisher = "fedsvp"

[tool.flwr.app.components]
serverapp = "fedsvp_jax.deploy.flower_tables:server"
clientapp = "fedsvp_jax.deploy.flower_tables:client"

[tool.flwr.app.config]
folder = {}
rounds = {}
round-timeout = 600.0
"""


def propose(folder: pathlib.Path, config: ResolvedConfig, schema: Schema) -> Policy:
    """Writes the folder that `flwr run` takes and every hospital joins from.

    It is of one training: two proposals have two agreements.

    Args:
      folder: a new one.
      config: what all train, with noise that only a cohort's sum has enough of. Its
        `batch_size` is the most training rows that a hospital may have.
      schema: that it names.

    Raises:
      FileExistsError: the folder is there.
      ValueError: as `make_policy`, `Policy.protocol` and `Client`.
    """
    rows = blank_rows(schema, [config.batch_size])
    policy = make_policy(
        config,
        min_num_examples=1,
        max_num_examples=config.batch_size,
        rows_per_person=rows.rows_per_person,
        run_id=secrets.token_hex(8),
    )
    _ = policy.protocol
    table_client(folder, policy, rows=rows)  # refuses what no hospital could train
    folder.mkdir(parents=True)
    (folder / _SCHEMA).write_text(to_toml(schema), encoding="utf-8")
    write_json(folder / _SETTINGS, policy.asked)
    (folder / "pyproject.toml").write_text(
        _APP.format(json.dumps(os.path.abspath(folder)), policy.last_round),
        encoding="utf-8",
    )
    return read_policy(folder)


def read_policy(folder: pathlib.Path, table: AnyPath | None = None) -> Policy:
    """The policy that a folder of `propose` states, for the owner of a table.

    Raises:
      OSError, ValueError: a file is missing or damaged, or of another version, or
        promises nothing.
    """
    arguments = read_json(folder / _SETTINGS)
    settings = arguments["config"]
    if (
        settings.get("total_epsilon") is None
        or settings.get("target_delta", 0) > _MOST_DELTA
    ):
        raise ValueError(
            f"{folder / _SETTINGS} promises no total_epsilon at a target_delta of "
            f"{_MOST_DELTA} or less, so nothing ends what a hospital spends; `fedsvp "
            "site propose` writes one"
        )
    settings["schema"] = os.path.abspath(folder / _SCHEMA)
    settings["data_dir"] = table and os.path.abspath(table)
    return policy_of(json.dumps(arguments, sort_keys=True))


def table_client(
    log: AnyPath,
    policy: Policy | None = None,
    *,
    witness: AnyPath | None = None,
    randomness: Randomness = SECRET,
    rows: Dataset | None = None,
) -> Client:
    """The client that trains on the table which its policy names.

    Args:
      log: of the site.
      policy: of `read_policy`; None for the log's own.
      witness, randomness: as of a `Site`.
      rows: in the place of the table, `blank_rows` of a server that answers nobody.

    Raises:
      Refused, OSError, ValueError: log or table cannot be read, or do not fit.
    """
    policy = policy or Site(log, witness=witness).policy
    return Client(
        policy,
        own_data(policy.training, rows or table_rows(policy)),
        log,
        witness=witness,
        randomness=randomness,
    )


def table_rows(policy: Policy) -> Dataset:
    """The table that a hospital's policy names.

    Args:
      policy: of `read_policy`, or of a log.

    Returns:
      The rows. Whether classes are swapped stands in their `notices` alone, for `join`:
      a site may have shares of its own, and a node reads its table in every round.

    Raises:
      OSError, ValueError: the table cannot be read, or does not fit the schema.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* in another order")
        return loading.load_dataset(policy.training)


def server_client(folder: pathlib.Path) -> Client:
    """The server's client, which answers nobody and makes the first model as all do."""
    policy = read_policy(folder)
    schema = read_schema(folder / _SCHEMA)
    return table_client(
        folder, policy, rows=blank_rows(schema, [policy.config.batch_size])
    )
