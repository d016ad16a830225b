"""The published cells: the noise that their formulas give, and the noise they need.

A published accuracy, as a share of the published FedAvg's, is looked up on a measured
curve of accuracy against noise. The noise found there is compared with the formula's.
The curve is the mean over the seeds; a curve per seed says how sure the answer is.
"""

import dataclasses
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.mechanisms.baseline_settings import DpaSettings, TimeVaryingSettings

from . import estimates, kept_cells, noise_response, results
from .evidence import FEDAVG, Evidence, Scenario, sizes
from .results import Result

PUBLISHED_DELTA = 0.02
PUBLISHED_CLIP = 20.0
SCHEDULES = {"time_varying": TimeVaryingSettings, "dpa": DpaSettings}


class Measured(NamedTuple):
    """A measured noise response."""

    result: Result
    curve: noise_response.Response  # of the mean over the seeds
    by_seed: tuple[noise_response.Response, ...]


def response_of(evidence: Evidence, scenario: Scenario) -> Measured | None:
    """The measured noise response of a scenario, full size if there is one.

    Its seeds are those that every std and FedAvg have. None while stds that are
    planned are missing: where the curve ends too early, noise beyond it would pass as
    harmless.
    """
    measured = sizes(evidence, scenario.response)
    if not measured:
        return None
    result = measured[-1][1]
    fedavg = results.group_of(result, "none")
    noisy = [g for g in result["groups"] if g["mechanism"] == "gaussian"]
    planned = kept_cells.NOISE_STDS.get(result["preset"], ())
    if fedavg is None or len(noisy) < max(2, len(planned)):
        return None
    seeds = estimates.common_seeds(fedavg, *noisy)
    if not seeds:
        return None

    def curve(chosen: Sequence[int]) -> noise_response.Response:
        def mean(group: Result) -> float:
            return statistics.fmean(estimates.last5(group, chosen))

        stds = [results.noise_std(group) for group in noisy]
        return noise_response.response(stds, [*map(mean, noisy)], mean(fedavg))

    return Measured(result, curve(seeds), tuple(curve([seed]) for seed in seeds))


def published_config(scenario: Scenario, epsilon: float) -> MechanismConfig:
    """The settings of the published experiments, as a mechanism takes them."""
    return MechanismConfig(
        epsilon=epsilon,
        delta=PUBLISHED_DELTA,
        l2_norm_clip=PUBLISHED_CLIP,
        min_num_examples=scenario.num_examples,
        num_rounds=400,
        batch_size=50,
        num_clients=100,
        cohort_size=10,
    )


class Cell(NamedTuple):
    """A published cell, the formula's noise, and the noise that it would need."""

    table: str
    mechanism: str
    epsilon: float
    share: float  # of the published FedAvg's final-five accuracy
    formula: float  # std of the averaged noise
    needed: noise_response.Reading
    needed_by_seed: tuple[noise_response.Reading, ...]

    @property
    def factor(self) -> noise_response.Reading:
        """The needed noise divided by the formula's."""
        return noise_response.quotient(self.needed, self.formula)

    @property
    def has_printed_formula(self) -> bool:
        """Whether the formula is a paper's, as opposed to our reconstruction."""
        return not mechanisms.is_reconstruction(self.mechanism)

    @property
    def consistent(self) -> bool:
        """Whether the formula's noise is within a factor of 2 of the needed noise."""
        return noise_response.agrees(self.factor, 1.0)

    @property
    def consistent_by_seed(self) -> tuple[bool, ...]:
        """The same by the curve of each seed."""
        factors = (
            noise_response.quotient(needed, self.formula)
            for needed in self.needed_by_seed
        )
        return tuple(noise_response.agrees(factor, 1.0) for factor in factors)


def cells(
    evidence: Evidence,
    scenario: Scenario,
    measured: Measured,
) -> list[Cell]:
    """The published cells of a scenario in both tables, with their noise."""
    scenario_cells = []
    formulas: dict[tuple[str, float], float] = {}
    for table in ("fedsva_table1", "fedsdp_table1"):
        published = evidence.published_cells(table, scenario.name)
        fedavg = evidence.published_last5(table, scenario.name)[FEDAVG]
        for cell in published:
            if cell["mechanism"] == "none":
                continue
            key = (cell["mechanism"], cell["epsilon"])
            if key not in formulas:
                config = published_config(scenario, key[1])
                if key[0] in SCHEDULES:
                    settings = SCHEDULES[key[0]]()
                    config = dataclasses.replace(config, settings=settings)
                formulas[key] = noise_response.formula_std(key[0], config)
            share = cell["last5"] / fedavg
            scenario_cells.append(
                Cell(
                    evidence.published[table]["title"],
                    *key,
                    share,
                    formulas[key],
                    noise_response.noise_needed(measured.curve, share),
                    tuple(
                        noise_response.noise_needed(curve, share)
                        for curve in measured.by_seed
                    ),
                )
            )
    return scenario_cells


def against_nbafl(
    of_table: Sequence[Cell], guided: str
) -> tuple[list[float], list[float]]:
    """What the accuracies and what the formulas say about two mechanisms' noise.

    Returns:
      By ε, for those whose two accuracies lie on the curve: the noise that NbAFL's
      accuracy needs divided by what the guided one's needs, and the guided mechanism's
      noise divided by NbAFL's by their formulas.
    """
    on_curve = {(c.mechanism, c.epsilon): c for c in of_table if c.needed.exact}
    pairs = [
        (nbafl, cell)
        for (mechanism, epsilon), nbafl in on_curve.items()
        if mechanism == "nbafl" and (cell := on_curve.get((guided, epsilon)))
    ]
    return (
        [nbafl.needed.least / cell.needed.least for nbafl, cell in pairs],
        [cell.formula / nbafl.formula for nbafl, cell in pairs],
    )


def explained(
    group: Sequence[Cell], conventions: Sequence[noise_response.Convention]
) -> list[int]:
    """How many of the cells each convention explains."""
    return [
        sum(noise_response.agrees(cell.factor, one.factor) for cell in group)
        for one in conventions
    ]
