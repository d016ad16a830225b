"""A sweep in parts: every cell is in one part, and what cannot be merged is refused."""

import dataclasses
import json
import pathlib
import shutil
from typing import Any

import pytest
from small_runs import digits, small

from fedsvp_jax import models
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.run.parts import merge
from fedsvp_jax.run.sweep import SweepPlan, sweep

MECHANISMS = ("none", "fedsva", "gaussian")
PLAN = SweepPlan(MECHANISMS, epsilons=(0.2, 0.5), seeds=(0, 2))
NUM_CELLS = 2 + 4 + 4


def cells(part: str | None = None) -> list[ExperimentConfig]:
    """The plan's, or those of a part of it."""
    plan = dataclasses.replace(PLAN, part=part)
    programs = plan.programs(ExperimentConfig())
    for mechanism, configs in programs.items():
        assert configs and {config.mechanism for config in configs} == {mechanism}
    return [config for configs in programs.values() for config in configs]


def test_the_parts_hold_every_cell_once_in_order_and_nothing_else_is_a_part() -> None:
    for parts in (3, NUM_CELLS):
        pieces = [cells(f"{number}/{parts}") for number in range(1, parts + 1)]
        assert [cell for piece in pieces for cell in piece] == cells()
        sizes = {len(piece) for piece in pieces}
        assert max(sizes) - min(sizes) <= 1
    for text in ("0/2", "3/2", "2", f"1/{NUM_CELLS + 1}"):
        with pytest.raises(ValueError, match=r"must be I/N.*(from 1 to|N at most 10)"):
            cells(text)


def finished(folder: pathlib.Path, of: str | None, **changes: Any) -> pathlib.Path:
    """A folder like that of a part of two cells per part."""
    folder.mkdir()
    plan = {"mechanisms": ["none"], "epsilons": [0.2], "seeds": [0, 1, 2, 3]}
    config = plan | {"part": of} | changes
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "cells.json").write_text("[{}, {}]")
    return folder


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            {"of": "1/2"},
            "each of the 2 parts of the sweep once, got part 1, 1; missing: .2.",
        ),
        ({"of": None}, "not the folder of a sweep started with --part"),
        ({"of": "2/2", "model": "mlp"}, "another sweep than .*model is 'mlp'"),
        ({"of": "3/3"}, "another division of it: part is 3 and was 2"),
        ({"of": "1/3", "seeds": [*range(6)]}, "another sweep than .*seeds is"),
    ],
)
def test_parts_that_do_not_fit_are_refused_and_nothing_is_written(
    second: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    folders = [finished(tmp_path / "a", "1/2"), finished(tmp_path / "b", **second)]
    with pytest.raises(ValueError, match=message):
        merge(folders, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_missing_or_unfinished_part_is_named(tmp_path: pathlib.Path) -> None:
    first, second = (finished(tmp_path / f"{k}", f"{k}/2") for k in (1, 2))
    with pytest.raises(
        ValueError, match=r"2 parts of the sweep once, got part 1; missing: \[2\]"
    ):
        merge([first], tmp_path / "merged")
    (second / "cells.json").write_text("[{}]")
    with pytest.raises(ValueError, match=r"part 2/2 in .* finished 1 of its 2 cells"):
        merge([first, second], tmp_path / "merged")
    (second / "cells.json").unlink()
    with pytest.raises(ValueError, match="finished 0 of its 2 cells; run its command"):
        merge([first, second], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


@pytest.fixture(scope="module")
def own_code(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A sweep, whole and in two parts."""
    folder = tmp_path_factory.mktemp("own_code")
    plan = SweepPlan(("nbafl", "none"), epsilons=(0.2,), seeds=(0,))
    model = models.make_model("mlp", num_classes=10)  # as one of one's own
    for name, part in (("whole", None), ("one", "1/2"), ("two", "2/2")):
        divided = dataclasses.replace(plan, part=part)
        base = small(num_rounds=1)
        sweep(base, divided, folder / name, dataset=digits(), model=model)
    return folder


@pytest.mark.hole
@pytest.mark.parametrize(
    ("name", "was", "now", "message"),
    [
        (
            "results.jsonl",
            '"test_accuracy": 0',
            '"test_accuracy": 1',
            "results.jsonl is not what",
        ),
        ("results.jsonl", '"seed": 0', '"seed": 7', "results.jsonl is not what"),
        ("results.jsonl", "\n", '\n{"mechanism": "n', "results.jsonl is not what"),
        ("cells.json", '_accuracy": 0', '_accuracy": 1', "cells.json is not what"),
        ("config.json", '"learning_rate": ', '"learning_rate": 1', "is damaged"),
        ("checkpoints/none/1", None, None, "copy the whole folder"),
        ("checkpoints/cells.sha256", None, None, "copy the whole folder, checkpoints/"),
        ("results.jsonl", None, None, "results.jsonl"),
    ],
)
def test_edited_or_incomplete_parts_are_refused_and_nothing_is_written(
    name: str,
    was: str | None,
    now: str,
    message: str,
    own_code: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    """They were merged, with the number that someone put there."""
    parts = [shutil.copytree(own_code / k, tmp_path / k) for k in ("one", "two")]
    for part in parts if name == "config.json" else parts[1:]:
        file = part / name
        text = file.read_text() if was else ""
        file.unlink()
        if was:
            assert was in text
            file.write_text(text.replace(was, now, 1))
    before = [path.read_bytes() for path in parts[1].rglob("*") if path.is_file()]
    with pytest.raises((ValueError, OSError), match=message):
        merge(parts, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
    after = [path.read_bytes() for path in parts[1].rglob("*") if path.is_file()]
    assert after == before


def test_parts_of_a_sweep_of_own_code_are_merged(
    own_code: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    merge([own_code / "two", own_code / "one"], tmp_path / "merged")
    for name in ("config.json", "results.jsonl", "cells.json"):
        whole, merged = own_code / "whole" / name, tmp_path / "merged" / name
        assert whole.read_bytes() == merged.read_bytes(), name
    summaries = json.loads((tmp_path / "merged" / "cells.json").read_text())
    assert "take secret_noise" in str(summaries)
