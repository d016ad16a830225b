"""A sweep: every mechanism one program, its (epsilon, seed) cells side by side."""

import dataclasses
import itertools
import json
import pathlib
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Self, TypeVar

import numpy as np

from fedsvp_jax import federation, mechanisms
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.config import ExperimentConfig, ResolvedConfig
from fedsvp_jax.core.files import (
    AnyPath,
    Record,
    read_json,
    replace_file,
    sha256,
    write_json,
)
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.structs import Model
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import loading
from fedsvp_jax.federation.plan import recorded_settings

from . import final_scores
from .checkpoint import Checkpointer
from .environment import environment
from .folder import RunFolder, differences, identity
from .options import USUAL, Options
from .placement import Placement
from .session import Session
from .stopping import StopRequests
from .trainer import Trainer

ROWS = "results.jsonl"
SUM = "checkpoints/cells.sha256"  # of cells.json, by which `parts.merge` knows it
Config = TypeVar("Config", bound=ExperimentConfig)


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """The cells: mechanisms x epsilons x seeds, over one base config.

    `total_epsilons` take the place of epsilons: the noise of each cell is solved for,
    so that the whole run spends that ε. FedAvg, the mechanism none, then runs once per
    seed as the reference.

    With `part` "I/N" only the cells of the I-th of N parts run, I from 1. The cells, in
    the order of cells.json, are cut into N pieces whose sizes differ by at most one.
    `parts.merge` joins the folders of all parts.
    """

    mechanisms: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    part: str | None = None
    total_epsilons: tuple[float, ...] = ()

    @classmethod
    def recorded(cls, config: Record) -> Self:
        """The plan that a sweep's config.json holds."""
        names = {field.name for field in dataclasses.fields(cls)} & config.keys()
        return cls(**{name: config[name] for name in names})

    def cells(self, base: Config, mechanism: str) -> list[Config]:
        """The configs of all cells of one mechanism, of every part.

        Raises:
          ValueError: the noise is to be solved for, and `total_epsilons` are missing.
        """
        varied: list[Record]
        if self.total_epsilons:
            promises = mechanism != "none"
            base = dataclasses.replace(base, solve="noise" if promises else "uploads")
            totals = self.total_epsilons if promises else [None]
            varied = [{"total_epsilon": total} for total in totals]
        elif base.solve == "noise":
            raise ValueError(
                "a sweep with solve=noise needs total_epsilons, for which the noise is "
                "solved; epsilons are ε per upload"
            )
        else:
            fixed = not mechanisms.about(mechanism).epsilon_sets_noise
            epsilons = self.epsilons[:1] if fixed else self.epsilons
            varied = [{"epsilon": epsilon} for epsilon in epsilons]
        return [
            dataclasses.replace(base, mechanism=mechanism, seed=seed, **changes)
            for changes in varied
            for seed in self.seeds
        ]

    def part_of(self) -> tuple[int, int]:
        """`(I, N)`; the whole sweep is part 1 of 1.

        Raises:
          ValueError: `part` is not I/N with 1 <= I <= N.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", self.part or "1/1")
        number, parts = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= parts:
            raise ValueError(
                "part must be I/N, the I-th of N parts with I from 1 to N, got "
                f"{self.part!r}"
            )
        return number, parts

    def programs(self, base: Config) -> dict[str, list[Config]]:
        """The configs of the part's cells, by mechanism; each list is one program.

        Raises:
          ValueError: `part` is no part of these cells.
        """
        number, parts = self.part_of()
        every = [cell for name in self.mechanisms for cell in self.cells(base, name)]
        if parts > len(every):
            raise ValueError(
                f"part must be I/N with N at most {len(every)}, the number of cells, "
                f"got {self.part!r}"
            )
        first, end = (len(every) * count // parts for count in (number - 1, number))
        by_mechanism: dict[str, list[Config]] = {}
        for cell in every[first:end]:
            by_mechanism.setdefault(cell.mechanism, []).append(cell)
        return by_mechanism


def cell_name(config: Config) -> Record:
    """The fields that identify a cell.

    `epsilon` is None where it does not set the noise: nobody claims it then. A cell
    whose noise was solved for has its `total_epsilon` in its place.
    """
    mechanism, solved = config.mechanism, config.solve == "noise"
    claims_epsilon = not solved and mechanisms.about(mechanism).epsilon_sets_noise
    epsilon = config.epsilon if claims_epsilon else None
    name = {"mechanism": mechanism, "epsilon": epsilon, "seed": config.seed}
    return name | ({"total_epsilon": config.total_epsilon} if solved else {})


def cell_key(row: Record) -> Hashable:
    """The cell of a `cell_name`, a row or a summary."""
    return tuple(map(row.get, ("mechanism", "epsilon", "seed", "total_epsilon")))


def _cells(plan: SweepPlan, base: Config) -> dict[Hashable, Config]:
    """Every cell of the plan's part, in the order of cells.json."""
    configs = itertools.chain(*plan.programs(base).values())
    return {cell_key(cell_name(config)): config for config in configs}


def programs(
    base: Config, folder: pathlib.Path, history: Sequence[Record]
) -> Iterator[tuple[Checkpointer, list[Config]]]:
    """Cells of a folder that are one program and their checkpoints; what a sweep had
    before it grew, or in parts, first and as it was.
    """
    remaining = _cells(SweepPlan.recorded(history[-1]), base)
    for stage, config in enumerate(history):
        for mechanism, configs in SweepPlan.recorded(config).programs(base).items():
            keys = [cell_key(cell_name(config)) for config in configs]
            cells = [remaining.pop(key) for key in keys if key in remaining]
            place = f"checkpoints/{mechanism}" + (f"-{stage}" if stage else "")
            if cells:
                yield Checkpointer(folder / place, identity(config)), cells


def sweep(
    base: ResolvedConfig,
    plan: SweepPlan,
    output_dir: AnyPath,
    *,
    dataset: Dataset | None = None,
    model: Model | None = None,
    loss: ExampleLoss | None = None,
    placement: Placement | None = None,
    options: Options = USUAL,
) -> list[Record]:
    """Runs every cell of the plan, or of its part, and writes the sweep's folder.

    Files: config.json, results.jsonl (one line per cell and round), cells.json
    (one summary per cell), checkpoints/. With `options.resume` the same call continues
    a sweep that was stopped or killed, and a larger plan adds its cells to those that
    are there, also of merged parts: on a CPU the files have the bytes of one sweep of
    all. It raises what `run.train` does.

    Args:
      base: the resolved settings that all cells share.
      plan: what varies.
      output_dir: new, or with `options.resume` the folder of the same sweep, or of one
        with fewer cells.
      dataset: as in `run.train`.
      model: as in `run.train`.
      loss: as in `run.train`.
      placement: where the work runs; `cell_chunk_size` cells of a mechanism run side by
        side.
      options: as in `run.train`.

    Returns:
      The cells' summaries: mechanism, epsilon, seed, accuracies, params_sha256,
      epsilon_spent, and `risk` by adversary (`accounting.tradeoff`).
    """
    if base.publish_scores:
        raise ValueError(
            "publish_scores must be left out of a sweep, whose cells run side by side"
        )
    data = dataset or loading.load_dataset(base)
    placement = placement or Placement()
    planned = plan.programs(base)
    every = _cells(plan, base)

    def trainer(cells: Sequence[ResolvedConfig]) -> Trainer:
        program = federation.build(cells, data, model=model, loss=loss)
        return Trainer(program, placement=placement)

    # What cannot run is refused before anything is kept.
    chosen = 1
    for cells in planned.values():
        tried = trainer(cells)
        chosen = max(chosen, tried.cell_chunk)
    folder = RunFolder(output_dir)
    settings = recorded_settings(base, data, loss, model) | dataclasses.asdict(plan)
    settings |= {"cell_chunk_size": placement.cell_chunk_size or chosen} | environment()
    lists = ("mechanisms", "epsilons", "seeds", "total_epsilons")

    def refused(former: Record, new: Record) -> list[str]:
        """Changes with which a sweep cannot grow; a part would have other cells."""
        longer = [
            name
            for name in lists
            if {*(former.get(name) or [None])} <= {*(new[name] or [None])}
        ]
        same = dict.fromkeys(["mechanism", "epsilon", "seed", *longer])
        of_part = plan.part and [
            "a part keeps its lists; merge all parts, then continue the whole sweep "
            "with longer lists, without --part"
        ]
        return differences(former | same, new | same) or of_part or []

    folder.start(settings, resume=options.resume, refused=refused)
    file = folder.path / "cells.json"
    recorded = read_json(file) if file.exists() else []
    summaries = {key: cell for cell in recorded if (key := cell_key(cell)) in every}
    with folder, StopRequests() as stop:
        # A row of no cell is damaged.
        folder.keep_rounds(ROWS, 0, is_ours=lambda row: every[cell_key(row)] is None)
        for checkpointer, configs in programs(base, folder.path, folder.history):
            trained = tried if [configs] == [*planned.values()] else trainer(configs)
            names = [cell_name(config) for config in configs]
            session = Session(trained, folder, options, checkpointer, cell_names=names)
            done = zip(session.run(stop), session.accounts, strict=True)
            for cell, (summary, account) in enumerate(done):
                test = trained.program.data.test
                if test.targets is None and (number := len(test.labels)):
                    # Of guessing the most frequent class.
                    guessing = np.bincount(test.labels).max() / number
                    summary |= {"test_rows": number, "guessing": guessing}
                summary |= {
                    "uploads_left": tradeoff.uploads_left(account),
                    "risk": tradeoff.by_adversary(account),
                }
                summary |= final_scores.scores_of(session, cell, settings, data, loss)
                summaries[cell_key(summary)] = summary
            write_json(file, [summaries[key] for key in every if key in summaries])
            replace_file(folder.path / SUM, sha256(file).encode())
        if len(folder.history) > 1:
            sort_rows(folder, every)
    return [summaries[key] for key in every]


def sort_rows(folder: RunFolder, keys: Iterable[Hashable]) -> None:
    """Sorts the rows by mechanism and round, then in the order of the cells' keys."""
    order = folder.history[-1]["mechanisms"].index
    places = {key: place for place, key in enumerate(keys)}

    def place_of(line: bytes) -> tuple[int, ...]:
        row = json.loads(line)
        return order(row["mechanism"]), row["round"], places[cell_key(row)]

    file = folder.path / ROWS
    lines = sorted(file.read_bytes().splitlines(keepends=True), key=place_of)
    replace_file(file, b"".join(lines))
