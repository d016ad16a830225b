"""The tables to convergence: what is kept, read and counted."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import ROOT

from experiments import presets
from experiments.reproduce import (
    kept_cells,
    open_question,
    published_noise,
    results,
)
from experiments.reproduce.evidence import SCENARIOS, Evidence

KEPT = ROOT / "docs" / "results" / "reproduction"


class Cell(NamedTuple):
    """What tells one run from the others."""

    preset: str
    mechanism: str
    level: float | None = None  # ε; the noise's std for `gaussian`; None for FedAvg
    seed: int = 0
    num_attributes: int = 2
    schedule_level: str = "budget"  # of time_varying and dpa

    @property
    def name(self) -> str:
        """The name of its file: `femnist/nbafl-0.2-n2-s0`."""
        level = "" if self.level is None else f"-{self.level:g}"
        reading = "" if self.schedule_level == "budget" else f"-{self.schedule_level}"
        return (
            f"{self.preset.removesuffix(presets.MEDIUM)}/{self.mechanism}{level}"
            f"{reading}-n{self.num_attributes}-s{self.seed}"
        )


def kept_cell(cell: Cell, **more: Any) -> dict[str, Any]:
    """What a file holds: 30 rounds that end at 80 %."""
    made = {
        **cell._asdict(),
        "date": "2026-11-22",
        "device_kind": "cpu",
        "xla_flags": {},
        "versions": {"jax": "0"},
        "cpu_seconds": 30.0,
        "accuracy": [0.5] * 5 + [0.8] * 25,
        "upload_noise_std": 0.03,
        "averaging": 10**-0.5,
        "noise_l2": [1.0] * 30,
        "contribution_ratio": None,
        "epsilon_spent": [0.2] * 30,
        "settings": {"num_rounds": 30, "model": "mlp", "dataset": "digits"},
    }
    return made | more


def write(folder: Path, *cells: dict[str, Any]) -> None:
    for cell in cells:
        known = {name: cell[name] for name in Cell._fields}
        path = folder / f"{Cell(**known).name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(cell))


def test_all_92_published_cells_are_measured(tmp_path: Path) -> None:
    measured = kept_cells.load(KEPT / kept_cells.KEPT)
    *_, total = kept_cells.progress(measured, results.published(KEPT))
    assert total["published cells"] == total["measured"] == "92"
    # FedAvg and ε = .2 and .5 of each mechanism: (1 + 10) + (1 + 8) of each scenario,
    # and N = 2 in Table 2, which is the same runs
    assert total["with 3 seeds"] == "42"
    assert "cifar10_medium_n5" in measured
    write(
        tmp_path, *(kept_cell(Cell("cifar10_medium", "fedsva", 0.2, s)) for s in (0, 1))
    )
    one = results.group_of(kept_cells.load(tmp_path)["cifar10_medium"], "fedsva", 0.2)
    assert one is not None and one["seeds"] == [0, 1]
    assert one["last5"] == pytest.approx([0.8] * 2)
    assert results.noise_std(one) == pytest.approx(0.03 / 10**0.5)


def test_a_cell_that_still_gains_is_measured_but_not_converged(tmp_path: Path) -> None:
    cell = Cell("femnist_medium", "none")
    climbing = [0.01 * t for t in range(1, 31)]  # its last fifth are 6 rounds
    write(tmp_path, kept_cell(cell, accuracy=climbing))
    assert kept_cells.last_fifth_gain(climbing) == pytest.approx(0.06)
    *_, total = kept_cells.progress(kept_cells.load(tmp_path), results.published(KEPT))
    assert list(total.values())[2:6] == ["92", "2", "0", "2"]


def test_a_curve_says_nothing_before_its_last_planned_std(tmp_path: Path) -> None:
    stds = kept_cells.NOISE_STDS["femnist_medium"]
    first = [
        Cell("femnist_medium", "none"),
        *(Cell("femnist_medium", "gaussian", std) for std in stds),
    ]
    write(tmp_path, *map(kept_cell, first[:-1]))
    partial = Evidence(kept_cells.load(tmp_path), results.published(KEPT))
    (scenario,) = (s for s in SCENARIOS if s.response == "noise_response_emnist")
    assert published_noise.response_of(partial, scenario) is None
    assert "Not measured yet" in open_question.question_block(scenario)(partial)
    write(tmp_path, kept_cell(first[-1]))
    whole = Evidence(kept_cells.load(tmp_path), results.published(KEPT))
    assert published_noise.response_of(whole, scenario) is not None


def test_the_curve_of_each_seed_has_its_own_verdict(tmp_path: Path) -> None:
    """Seed 1's accuracy falls at a std that is a hundredth of seed 0's."""
    kept = []
    for seed, falls_at in ((0, 1.0), (1, 0.01)):
        kept.append(kept_cell(Cell("femnist_medium", "none", seed=seed)))
        for std in kept_cells.NOISE_STDS["femnist_medium"]:
            cell = Cell("femnist_medium", "gaussian", std, seed)
            rest = [0.8 / (1 + std / falls_at)] * 30
            kept.append(kept_cell(cell, accuracy=rest, upload_noise_std=std))
    extra = kept_cell(Cell("femnist_medium", "none", seed=2), accuracy=[0.1] * 30)
    write(tmp_path, *kept, extra)  # a seed that the stds do not have changes nothing
    evidence = Evidence(kept_cells.load(tmp_path), results.published(KEPT))
    (scenario,) = (s for s in SCENARIOS if s.response == "noise_response_emnist")
    measured = published_noise.response_of(evidence, scenario)
    assert measured is not None
    assert [round(one.share[-1], 2) for one in measured.by_seed] == [0.77, 0.03]
    assert measured.curve.share[-1] == pytest.approx((1 / 1.3 + 1 / 31) / 2)
    cells = published_noise.cells(evidence, scenario, measured)
    by_seed = {cell.consistent_by_seed for cell in cells}
    assert (False, True) in by_seed or (True, False) in by_seed
    text = open_question.question_block(scenario)(evidence)
    assert "| 1 of 2 seeds |" in text


def test_a_damaged_cell_is_named(tmp_path: Path) -> None:
    (tmp_path / "femnist").mkdir()
    (tmp_path / "femnist" / "none.json").write_text('{"accuracy": []}')
    with pytest.raises(ValueError, match=r"none\.json is not the file of a cell"):
        kept_cells.load(tmp_path)


def test_a_kept_cell_has_the_settings_of_its_preset_and_its_name() -> None:
    """Files of other settings would be counted as measurements of these."""

    def shown(value: Any) -> str:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{value:g}" if number else str(value).lower()

    for path in (KEPT / kept_cells.KEPT).glob("*/*.json"):
        cell = json.loads(path.read_text())
        one = Cell(**{name: cell[name] for name in Cell._fields})
        assert f"{path.parent.name}/{path.stem}" == one.name
        wanted = presets.read_preset(one.preset).flags | one._asdict()
        del wanted["preset"]
        level = wanted.pop("level")
        if level is not None:
            wanted["noise_std" if one.mechanism == "gaussian" else "epsilon"] = level
        found = {name: shown(value) for name, value in cell["settings"].items()}
        assert found == {
            name: value if isinstance(value, str) else shown(value)
            for name, value in wanted.items()
        }, path
