"""A sweep: each cell is the single run, killed or not, and ε orders the noise."""

import dataclasses
import json
import pathlib
import shutil
from typing import Any

import jax
import numpy as np
import pytest
from published import epsilon_of
from small_runs import Stopped, contents, digits, read_rows, small, stop_at

from fedsvp_jax import federation, run
from fedsvp_jax.accounting import Account
from fedsvp_jax.federation import plan as plans
from fedsvp_jax.federation import program
from fedsvp_jax.run.parts import merge
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.sweep import SweepPlan, cell_name, sweep
from fedsvp_jax.run.trainer import Trainer

EPSILONS = (0.2, 0.4, 0.8)
PLAN = SweepPlan(mechanisms=("none", "fedsva"), epsilons=EPSILONS, seeds=(0, 2))
ROUNDS = {"num_rounds": 3, "eval_every": 2}
SAME_BYTES = ("config.json", "results.jsonl", "cells.json")

pytestmark = pytest.mark.usefixtures("shared_rounds")


def run_sweep(folder: pathlib.Path, *, resume: bool = False) -> list[dict[str, Any]]:
    return sweep(
        small(**ROUNDS),
        PLAN,
        folder,
        dataset=digits(),
        placement=Placement(rounds_per_call=1),
        options=run.Options(resume=resume, checkpoint_every=1),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("whole") / "sweep"
    run_sweep(folder)
    return folder


def results(folder: pathlib.Path) -> list[dict[str, Any]]:
    return read_rows(folder / "results.jsonl")


def test_every_cell_has_a_row_of_each_round_and_a_summary_in_the_plans_order(
    whole: pathlib.Path,
) -> None:
    def name(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["mechanism"], row["epsilon"], row["seed"]

    cells = json.loads((whole / "cells.json").read_text())
    order = [("none", None, 0), ("none", None, 2)]
    order += [("fedsva", epsilon, seed) for epsilon in EPSILONS for seed in (0, 2)]
    assert [name(cell) for cell in cells] == order
    assert len({cell["params_sha256"] for cell in cells}) == len(cells)
    rows = [(*name(row), row["round"]) for row in results(whole)]
    assert len(rows) == len({*rows})
    assert {*rows} == {(*cell, round_num) for cell in order for round_num in (1, 2, 3)}


@pytest.mark.parametrize(("mechanism", "epsilon"), [("none", None), ("fedsva", 0.4)])
def test_a_cell_is_the_single_run_to_the_bit(
    mechanism: str, epsilon: float | None, whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    config = small(mechanism=mechanism, epsilon=epsilon or 0.2, seed=2, **ROUNDS)
    alone = run.train(config, tmp_path / "run", dataset=digits())
    name = {"mechanism": mechanism, "epsilon": epsilon, "seed": 2}
    cells = json.loads((whole / "cells.json").read_text())
    (cell,) = (cell for cell in cells if name.items() <= cell.items())
    assert cell["params_sha256"] == alone["params_sha256"]
    lines = read_rows(tmp_path / "run" / "metrics.jsonl")
    rows = [row for row in results(whole) if name.items() <= row.items()]
    assert [name | line for line in lines] == rows


@pytest.mark.parametrize(("mechanism", "round_num"), [("none", 2), ("fedsva", 3)])
def test_a_sweep_stopped_midway_and_resumed_equals_an_uninterrupted_one(
    mechanism: str, round_num: int, whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "sweep"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        stop_at(patch, round_num, mechanism)
        run_sweep(folder)
    with open(folder / "results.jsonl", "a") as file:
        file.write('{"mechanism": "fed')  # torn by a kill
    run_sweep(folder, resume=True)
    assert contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)


def grown(folder: pathlib.Path, plan: SweepPlan) -> list[dict[str, Any]]:
    """`run_sweep` of a plan on a folder that may hold cells of it."""
    options = run.Options(resume=True, checkpoint_every=1)
    return sweep(small(**ROUNDS), plan, folder, dataset=digits(), options=options)


@pytest.mark.hole
def test_a_sweep_grows_by_cells_killed_or_not_to_the_bytes_of_one_of_all(
    whole: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused, "other seeds need another folder": none could be added."""
    folder = tmp_path / "sweep"
    few = SweepPlan(("fedsva",), (0.8, 0.2), (2,))
    more = SweepPlan(("fedsva",), (0.2, 0.8), (0, 2))
    grown(folder, few)
    trained = []
    advance = Trainer.advance

    def counted(self: Trainer, state: Any, first: int, count: int) -> Any:
        configs = self.program.configs
        trained.extend((one.mechanism, one.epsilon, one.seed) for one in configs)
        return advance(self, state, first, count)

    monkeypatch.setattr(Trainer, "advance", counted)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_at(patch, 2, "fedsva")
        grown(folder, more)
    grown(folder, more)
    assert {*trained} == {("fedsva", 0.2, 0), ("fedsva", 0.8, 0)}
    del trained[:]
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_at(patch, 3, "none")
        grown(folder, PLAN)
    grown(folder, PLAN)
    new = {("none", 0.2, 0), ("none", 0.2, 2), ("fedsva", 0.4, 0), ("fedsva", 0.4, 2)}
    assert {*trained} == new
    assert contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)
    del trained[:]
    grown(folder, PLAN)
    assert not trained and contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)
    of_seeds = r": seeds is \[0, 1, 3\] and was \[0, 2\]$"
    for fewer, named in (
        (more, r": epsilons is .* was .*; mechanisms is .* 'fedsva'\]$"),
        (SweepPlan(("gaussian", *PLAN.mechanisms), EPSILONS, (0, 1, 3)), of_seeds),
        (SweepPlan(PLAN.mechanisms, EPSILONS, (0, 2), None, (1.0,)), ": total_eps"),
    ):
        with pytest.raises(ValueError, match="need another folder" + named):
            grown(folder, fewer)
    part = SweepPlan(("none", "fedsva"), EPSILONS, (0, 2, 3), part="1/2")
    with pytest.raises(ValueError, match="part is '1/2' and was None"):
        grown(folder, part)
    longer = SweepPlan(PLAN.mechanisms, EPSILONS, (0, 2, 3))
    with pytest.raises(ValueError, match=r"folder: num_rounds is 5 and was 3$"):
        sweep(
            small(eval_every=2),
            longer,
            folder,
            dataset=digits(),
            options=run.Options(resume=True),
        )
    assert contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("was", "now", "named"),
    [
        ('"test_accuracy": 0', '"test_accuracy": 1', "has other rows than were writ"),
        ('"seed": 2', '"seed": 7', "line [0-9]+, is damaged"),
    ],
)
def test_a_changed_row_of_a_finished_mechanism_is_noticed(
    was: str, now: str, named: str, whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It went on with the number that someone put there, into report and table.

    A refusal in the second mechanism left cells.json with those of the first alone.
    """
    folder = shutil.copytree(whole, tmp_path / "sweep")
    rows = folder / "results.jsonl"
    rows.write_text(now.join(rows.read_text().rsplit(was, 1)))
    changed = contents(folder, SAME_BYTES)
    with pytest.raises(ValueError, match=rf"results.jsonl.* {named}.*put a copy of"):
        run_sweep(folder, resume=True)
    assert contents(folder, SAME_BYTES) == changed


def test_parts_that_ran_apart_merge_to_the_sweep_in_one_process_and_grow(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Parts could not be extended, and their whole had no checkpoint to go on from."""
    folders = [tmp_path / "second", tmp_path / "first"]
    for folder, part in zip(folders, ("2/2", "1/2"), strict=True):
        plan = SweepPlan(("none",), EPSILONS, seeds=(0, 2), part=part)
        sweep(small(**ROUNDS), plan, folder, dataset=digits())
    with pytest.raises(ValueError, match=r"folder: a part keeps its lists; merge all"):
        grown(folders[1], dataclasses.replace(plan, seeds=(0, 2, 3)))
    for _ in range(2):  # the second as after a kill
        merge(folders, tmp_path / "merged")
    lines = (whole / "results.jsonl").read_text().splitlines(keepends=True)
    ours = "".join(line for line in lines if '"mechanism": "none"' in line)
    assert (tmp_path / "merged" / "results.jsonl").read_text() == ours
    names, both = ("config.json", "cells.json"), (tmp_path / "merged", whole)
    (config, cells), (of_all, every) = (
        [json.loads((folder / name).read_text()) for name in names] for folder in both
    )
    assert config == of_all | {"mechanisms": ["none"]}
    assert cells == [cell for cell in every if cell["mechanism"] == "none"]
    grown(tmp_path / "merged", PLAN)
    assert contents(tmp_path / "merged", SAME_BYTES) == contents(whole, SAME_BYTES)
    for taken in (tmp_path / "merged", folders[0]):
        before = contents(taken, SAME_BYTES)
        with pytest.raises(ValueError, match="already holds a run; give another fol"):
            merge(folders, taken)
        assert contents(taken, SAME_BYTES) == before


def test_gaussian_is_swept_over_epsilon_in_one_program(tmp_path: pathlib.Path) -> None:
    """Each cell has the z of its own ε, which is solved for before the tracing."""
    plan = SweepPlan(("gaussian",), epsilons=(0.5, 8.0), seeds=(2,))
    base = small(**ROUNDS)
    sweep(base, plan, tmp_path / "sweep", dataset=digits())
    rows = results(tmp_path / "sweep")
    assert base.delta is not None
    found = [epsilon_of(row["noise_multiplier_mean"], base.delta) for row in rows]
    assert found == pytest.approx([0.5, 8.0] * 3, rel=1e-5)
    assert [row["epsilon"] for row in rows] == [0.5, 8.0] * 3


@pytest.mark.hole
def test_no_row_of_a_cell_follows_the_other_cells(tmp_path: pathlib.Path) -> None:
    """A cell's promise had the first cell's δ, less than its uploads claimed."""
    promise = {"delta": 1e-2, "total_epsilon": 0.5, "total_accounting": "basic"}
    rounds = {"num_rounds": 6, "eval_every": 6}
    config = small(mechanism="nbafl", clipping="update_clip", **promise, **rounds)

    def cells(folder: str, *epsilons: float) -> dict[float, Any]:
        plan = SweepPlan(mechanisms=("nbafl",), epsilons=epsilons, seeds=(0,))
        sweep(config, plan, tmp_path / folder, dataset=digits())
        told = json.loads((tmp_path / folder / "cells.json").read_text())
        return {cell["epsilon"]: cell for cell in told}

    both, turned = cells("both", 0.25, 0.1), cells("turned", 0.1, 0.25)
    assert both == turned
    assert cells("alone", 0.1)[0.1]["guarantees"] == both[0.1]["guarantees"]
    deltas = {of: cell["guarantees"][-1]["delta"] for of, cell in both.items()}
    assert deltas == pytest.approx({0.25: 2 * 1e-2, 0.1: 5 * 1e-2})


def test_total_epsilons_are_solved_and_fedavg_is_their_reference() -> None:
    plan = SweepPlan(("none", "nbafl"), (), seeds=(0, 2), total_epsilons=(1.0, 8.0))
    base = small(mechanism="nbafl", calibration="analytic")
    free, solved = plan.programs(base).values()
    assert [(one.seed, one.total_epsilon) for one in free] == [(0, None), (2, None)]
    assert [one.total_epsilon for one in solved] == [1.0, 1.0, 8.0, 8.0]
    assert {one.solve for one in solved} == {"noise"}
    name = cell_name(solved[2])
    assert name["total_epsilon"] == 8 and name["epsilon"] is None
    assert "total_epsilon" not in cell_name(free[0])
    with pytest.raises(ValueError, match="needs total_epsilons"):
        SweepPlan(("nbafl",), (0.1,), (0,)).programs(solved[0])


@pytest.mark.hole
def test_cells_that_differ_in_their_seeds_have_their_noise_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 240 cells the mechanisms took 20 of 23 CPU seconds before the first round."""
    plan = SweepPlan(mechanisms=("fedsva",), epsilons=(0.2, 0.4), seeds=(0, 1, 2))
    cells = plan.programs(small(**ROUNDS))["fedsva"]
    alone = [federation.build([cell], digits()).cells for cell in cells]
    made = []
    make = plans.make_configured_mechanism
    monkeypatch.setattr(
        plans,
        "make_configured_mechanism",
        lambda config, *facts, **sizes: (
            made.append(config) or make(config, *facts, **sizes)
        ),
    )
    program = federation.build(cells, digits())
    assert [config.epsilon for config in made] == [0.2, 0.4]
    for place, (cell, one) in enumerate(zip(cells, alone, strict=True)):
        assert program.configs[place] == cell
        for part in ("mechanism", "root", "allowance"):
            for many, single in zip(
                jax.tree.leaves(getattr(program.cells, part)),
                jax.tree.leaves(getattr(one, part)),
                strict=True,
            ):
                assert bool((many[place] == single[0]).all())


@pytest.mark.hole
def test_cells_that_differ_in_their_seeds_are_planned_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of a sweep's cells composed its own promise."""
    planned = []

    class Counted(program.SpendingPlan):
        def __init__(self, account: Account) -> None:
            planned.append(account)
            super().__init__(account)

    monkeypatch.setattr(program, "SpendingPlan", Counted)
    base = small(mechanism="gaussian", clipping="update_clip", max_uploads=2)
    plan = SweepPlan(("gaussian",), epsilons=(0.2, 0.4), seeds=(0, 1, 2))
    cells = federation.build(plan.cells(base, "gaussian"), digits()).cells
    assert len(planned) == 2
    assert np.asarray(cells.allowance.budget).tolist() == [2] * 6
