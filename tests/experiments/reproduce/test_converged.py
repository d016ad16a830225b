"""The tables to convergence: what is planned, kept, gone on with and counted."""

import datetime
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT

from experiments.reproduce import (
    converged,
    kept_cells,
    open_question,
    published_noise,
    results,
)
from experiments.reproduce.converged import Cell
from experiments.reproduce.evidence import SCENARIOS, Evidence

KEPT = ROOT / "docs" / "results" / "reproduction"


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


def test_the_plan_measures_every_published_cell_and_what_teaches_most_first() -> None:
    plan = converged.plan()
    assert len(set(plan)) == len(plan)
    names = [cell.name for cell in plan]
    assert len(set(names)) == len(names)
    everything = {cell["preset"] for cell in map(kept_cell, plan)}
    assert everything == set(converged.SCENARIO_OF)
    first = {cell.preset: [] for cell in plan}
    for cell in plan:
        first[cell.preset].append(cell.mechanism)
    for mechanisms in first.values():
        assert mechanisms[:9] == ["none", *8 * ["gaussian"]]
    at_the_ends = [names.index(f"femnist/fedsva-{e}-n2-s0") for e in (0.2, 0.5)]
    between = [names.index(f"cifar10/fedsva-{e}-n2-s0") for e in (0.3, 0.4)]
    assert max(at_the_ends) < min(between)
    more_seeds = [i for i, cell in enumerate(plan) if cell.seed]
    two = [i for i, cell in enumerate(plan) if cell.num_attributes == 2]

    first_seed = [i for i in two if not plan[i].seed]
    assert max(first_seed) < min(more_seeds)
    compared = {cell.mechanism for cell in plan[more_seeds[0] : more_seeds[0] + 7]}
    assert compared == {"none", "nbafl", "fedsdp", "fedsva"}


def test_when_all_is_kept_all_92_published_cells_are_measured(tmp_path: Path) -> None:
    write(tmp_path, *map(kept_cell, converged.plan()))
    measured = kept_cells.load(tmp_path)
    *_, total = kept_cells.progress(measured, results.published(KEPT))
    assert total["published cells"] == total["measured"] == "92"
    assert total["at a length at which FedAvg has converged"] == "92"
    # FedAvg and ε = .2 and .5 of each mechanism: (1 + 10) + (1 + 8) of each scenario,
    # and N = 2 in Table 2, which is the same runs
    assert total["with 3 seeds"] == "42"
    one = results.group_of(measured["cifar10_medium"], "fedsva", 0.2)
    assert one is not None and one["seeds"] == [0, 1, 2]
    assert one["last5"] == pytest.approx([0.8] * 3)
    assert results.noise_std(one) == pytest.approx(0.03 / 10**0.5)
    assert "cifar10_medium_n5" in measured
    lower = results.group_of(
        measured["femnist_medium_first_round"], "time_varying", 0.2
    )
    assert lower is not None


def test_a_cell_that_still_gains_is_measured_but_not_converged(tmp_path: Path) -> None:
    cell = Cell("femnist_medium", "none")
    climbing = [0.01 * t for t in range(1, 31)]  # its last fifth are 6 rounds
    write(tmp_path, kept_cell(cell, accuracy=climbing))
    assert kept_cells.last_fifth_gain(climbing) == pytest.approx(0.06)
    *_, total = kept_cells.progress(kept_cells.load(tmp_path), results.published(KEPT))
    assert list(total.values())[2:6] == ["92", "2", "0", "2"]


def test_a_curve_says_nothing_before_its_last_planned_std(tmp_path: Path) -> None:
    first = [cell for cell in converged.plan() if cell.preset == "femnist_medium"][:9]
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
        for std in converged.NOISE_STDS["femnist_medium"]:
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


class Runs:
    """Stands for `one_run.train` and `converged.keep`: notes what would have run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trained: list[tuple[Any, Path]] = []
        monkeypatch.setattr("fedsvp_jax.federation.loading.load_data", lambda _: None)
        monkeypatch.setattr("fedsvp_jax.run.one_run.train", self.train)
        monkeypatch.setattr(converged, "keep", self.keep)

    def train(self, config: Any, folder: Path, **options: Any) -> None:
        assert options["resume"] is True
        self.trained.append((config, folder))

    def keep(self, cell: Cell, folder: Path, target: Path, price: Any) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(cell.name)


def test_the_same_call_runs_what_is_not_kept_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Runs(monkeypatch)
    cells = [
        Cell("femnist_medium", "nbafl", 0.2),
        Cell("femnist_medium", "gaussian", 0.03),
    ]
    places = {"data_dir": "d", "output_dir": tmp_path / "runs", "until": None}
    kept = tmp_path / "kept"
    converged.run(cells[:1], kept=kept, **places)
    converged.run(cells, kept=kept, **places)
    assert [folder.name for _, folder in runs.trained] == [
        "nbafl-0.2-n2-s0",
        "gaussian-0.03-n2-s0",
    ]
    nbafl, gaussian = (config for config, _ in runs.trained)
    assert (nbafl.mechanism, nbafl.epsilon, nbafl.l2_norm_clip) == ("nbafl", 0.2, 20.0)
    assert nbafl.noise_examples_scale == 85.9 and nbafl.augment is False
    assert (gaussian.mechanism, gaussian.noise_std) == ("gaussian", 0.03)


def test_it_stops_by_itself_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append((pid, number)))
    timer = converged.stop_at(datetime.datetime.now())
    timer.join(timeout=5)
    assert [number for _, number in sent] == [signal.SIGTERM]


def test_the_kept_cells_are_of_the_plan() -> None:
    """Files of other settings would be counted as measurements of these."""
    names = {cell.name for cell in converged.plan()}
    folder = KEPT / converged.KEPT
    for path in folder.glob("*/*.json"):
        cell = json.loads(path.read_text())
        assert f"{path.parent.name}/{path.stem}" in names
        one = Cell(**{name: cell[name] for name in Cell._fields})
        assert cell["settings"] == converged.settings(one), path
