"""The cells of linear heads, as they are typed, and the page that shows them."""

import json
import math
import pathlib

import pytest
from commands import succeeds
from small_runs import read_rows

from experiments.features import cells
from experiments.features.cells import CELLS, config_of

DOCS = pathlib.Path(__file__).parents[3] / "docs"
NAME = "digits_scatter_linear_1_3"


def test_missing_rows_alone_are_computed(tmp_path: pathlib.Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (cell,) = (cell for cell in CELLS if cell.name == NAME)
    kept = [{"name": NAME, "seed": seed} for seed in range(1, cell.seeds)]
    file = results / "digits.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))
    typed = (
        "experiments.features",
        "--part=digits",
        f"--names={NAME}",
        f"--results_dir={results}",
        f"--features_dir={tmp_path / 'features'}",
        f"--output_dir={tmp_path / 'runs'}",
    )
    succeeds(*typed)
    *others, row = read_rows(file)
    assert others == kept
    assert (row["name"], row["seed"], row["status"]) == (NAME, 0, "proved")
    assert 2.999 < row["epsilon"] <= 3 and row["delta"] == 1e-5
    assert row["accuracy"] > 0.94
    written = file.read_bytes()
    succeeds(*typed)
    assert file.read_bytes() == written


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_every_cell_has_settings(cell: cells.Cell) -> None:
    config = config_of(cell, 0)
    assert config.model == cell.model and config.num_clients == cell.clients
    noisy = math.isfinite(cell.epsilon)
    assert (config.total_epsilon == cell.epsilon) == noisy
    assert not config.augment
