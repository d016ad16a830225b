"""A federation over tables that stay where they are: proposed once, joined by each.

    propose        the coordinator's folder: public schema, settings, and Flower's app
    join           a hospital's log of its own table, from that folder
    table_client   the client that the log describes
    server_client  what the server knows: the first model, and how a sum moves it

The folder holds no code and no record. It goes to every hospital before the first
round; from then on a hospital's log decides what it answers.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import AnyPath, read_json, write_json
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, read_schema, to_toml
from fedsvp_jax.deploy.client import Client, own_data
from fedsvp_jax.deploy.noise import SECRET, Randomness
from fedsvp_jax.deploy.policy import Policy, make_policy, protocol
from fedsvp_jax.deploy.site import Site, policy_of
from fedsvp_jax.federation import loading

SCHEMA, SETTINGS, MODEL = "schema.toml", "settings.json", "model.safetensors"
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
folder = {folder}
rounds = {rounds}
round-timeout = 600.0
"""


def at_one_site(schema: Schema) -> Schema:
    """The schema of a single client's table, which need not say whose its rows are."""
    columns = dict(schema.columns)
    if schema.client is not None:
        columns[schema.client] = SchemaColumn("drop")
    return dataclasses.replace(schema, client=None, columns=columns)


def blank_rows(schema: Schema, sizes: Sequence[int]) -> Dataset:
    """Rows of zeros in the place of those that nobody but their client reads.

    Args:
      schema: of all tables.
      sizes: training rows of each client.
    """
    width = sum(column.width for column in schema.columns.values())
    inputs = np.zeros((sum(sizes), width), np.float32)
    labels = np.zeros(len(inputs), np.int32)
    by_person = schema.unit == "person"
    return Dataset(
        "csv",
        inputs,
        labels,
        inputs[:1],
        labels[:1],
        len(schema.classes),
        train_writers=np.repeat(np.arange(len(sizes)), sizes),
        train_persons=np.arange(len(inputs)) if by_person else None,
        rows_per_person=schema.rows_per_person if by_person else None,
        from_records=schema.from_records,
        schema=schema,
    )


def propose(
    folder: pathlib.Path,
    config: ResolvedConfig,
    schema: Schema,
    *,
    min_num_examples: int,
) -> Policy:
    """Writes the folder that `flwr run` takes and every hospital joins from.

    Args:
      folder: a new one.
      config: what all train, whose noise only a cohort's sum has enough of.
      schema: of `at_one_site`.
      min_num_examples: training rows of the smallest hospital; `config.batch_size` is
        the most that one may have.

    Raises:
      FileExistsError: the folder is there.
      ValueError: as `make_policy`, `protocol` and `Client`.
    """
    rows = blank_rows(schema, [config.batch_size])
    policy = make_policy(
        config,
        min_num_examples=min_num_examples,
        max_num_examples=config.batch_size,
        rows_per_person=rows.rows_per_person,
    )
    protocol(policy.settings())
    _client_of(policy, rows, folder)  # refuses what no hospital could train
    folder.mkdir(parents=True)
    (folder / SCHEMA).write_text(to_toml(schema), encoding="utf-8")
    write_json(folder / SETTINGS, policy.asked)
    app = _APP.format(
        folder=json.dumps(os.path.abspath(folder)), rounds=config.num_rounds
    )
    (folder / "pyproject.toml").write_text(app, encoding="utf-8")
    return read_policy(folder)


def read_policy(folder: pathlib.Path, table: AnyPath | None = None) -> Policy:
    """The policy that a folder of `propose` states, for the owner of a table.

    Raises:
      OSError, ValueError: a file is missing or damaged, or of another version.
    """
    asked = read_json(folder / SETTINGS)
    asked["config"]["schema"] = os.path.abspath(folder / SCHEMA)
    if table is not None:
        asked["config"]["data_dir"] = os.path.abspath(table)
    return policy_of(json.dumps(asked, sort_keys=True))


def join(
    folder: pathlib.Path,
    table: AnyPath,
    log: AnyPath,
    witness: AnyPath | None = None,
) -> Client:
    """Begins the log of a hospital, which names its table and what it agreed to.

    Raises:
      FileExistsError, OSError, ValueError: as `read_policy` and `Site.begin`, or the
        table does not fit the schema.
    """
    client = _of_table(read_policy(folder, table), log, witness, SECRET)
    client.begin()
    return client


def table_client(
    log: AnyPath,
    witness: AnyPath | None = None,
    randomness: Randomness = SECRET,
) -> Client:
    """The client of a log that `join` began.

    Raises:
      Refused, OSError, ValueError: log or table cannot be read, or the table is not the
        one with which the log was begun.
    """
    policy = Site(log, witness=witness).policy
    client = _of_table(policy, log, witness, randomness)
    client.site.read()
    return client


def server_client(folder: pathlib.Path) -> tuple[Client, Schema]:
    """The server's, which answers nobody, and the schema of its models."""
    policy, schema = read_policy(folder), read_schema(folder / SCHEMA)
    rows = blank_rows(schema, [policy.config.batch_size])
    return _client_of(policy, rows, folder), schema


def tested_rows(log: AnyPath) -> Dataset:
    """The table of a log, with the rows that the hospital kept out of the training."""
    return loading.load_dataset(Site(log).policy.training)


def _of_table(
    policy: Policy, log: AnyPath, witness: AnyPath | None, randomness: Randomness
) -> Client:
    config = policy.training
    data = own_data(config, loading.load_dataset(config))
    return Client(policy, data, log, witness=witness, randomness=randomness)


def _client_of(policy: Policy, rows: Dataset, folder: pathlib.Path) -> Client:
    return Client(policy, own_data(policy.training, rows), folder / "server")
