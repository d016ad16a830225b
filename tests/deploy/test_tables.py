"""Tables of several hospitals: a schema makes their models' shapes equal."""

import dataclasses
import pathlib

import numpy as np
import pytest
from deployed import EXAMPLES

from fedsvp_jax.deploy import answer
from fedsvp_jax.run.trained_model import load_model
from fedsvp_jax.tables.schema import read_schema
from fedsvp_jax.tables.table import load_rows

pytestmark = [
    pytest.mark.across("hospitals with a schema, of whom one has one outcome"),
    pytest.mark.slow,
]
HOSPITALS = 3


def test_a_hospital_with_one_outcome_takes_part_and_the_model_predicts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "flower_sums"))
    from sums.federation import (  # type: ignore[import-not-found]
        client_of,
        deal,
        server_of,
    )

    deal(tmp_path, HOSPITALS)
    first = (tmp_path / "hospital-0.csv").read_text()
    assert "benign" in first and "malignant" not in first
    server = server_of(tmp_path, HOSPITALS)
    arrays, total = server.initial_arrays, None
    for number in range(HOSPITALS):
        client = client_of(number, tmp_path, HOSPITALS)
        client.begin()
        for mine, leaf in zip(client.initial_arrays, arrays, strict=True):
            np.testing.assert_array_equal(mine, leaf)
        trained = client.train(arrays, 1)
        whole, record = answer(client.site, arrays, lambda t=trained: t, round_num=1)
        total = whole if total is None else list(map(np.add, total, whole))
    unit = np.float32(record["grid_step"] / HOSPITALS)
    arrays = [
        old + leaf.astype(np.float32) * unit
        for old, leaf in zip(arrays, total or [], strict=True)
    ]
    schema = read_schema(tmp_path / "schema.toml")
    model = dataclasses.replace(server.trained_model(arrays, 1), schema=schema)
    model.save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert loaded.schema is not None
    rows = load_rows(tmp_path / "new.csv", loaded.schema)
    assert set(loaded.predict(rows)) <= {0, 1} and len(rows) == 69
