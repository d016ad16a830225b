"""Do the published accuracies follow from the published noise? Blocks of the page.

A published accuracy, as a share of the published FedAvg's, is looked up on a measured
curve of accuracy against noise; the noise found there is set beside the formula's.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.report import labels
from fedsvp_jax.report.tables import markdown_table

from . import noise_response, results
from .evidence import (
    SCENARIOS,
    SMALL,
    Evidence,
    Scenario,
    mean_accuracy,
    preset_command,
    sizes,
)
from .results import Result

PUBLISHED_DELTA = 0.02


def response_of(
    evidence: Evidence, scenario: Scenario
) -> tuple[Result, noise_response.Response] | None:
    """The largest measured noise response of a scenario."""
    found = sizes(evidence, scenario.response)
    if not found:
        return None
    result = found[-1][1]
    noiseless = mean_accuracy(results.group_of(result, "none"))
    noisy = [g for g in result["groups"] if g["mechanism"] == "gaussian"]
    if noiseless is None or len(noisy) < 2:
        return None
    curve = noise_response.response(
        [results.noise_std(group) for group in noisy],
        [mean_accuracy(group) or 0.0 for group in noisy],
        noiseless,
    )
    return result, curve


def published_config(scenario: Scenario, epsilon: float) -> MechanismConfig:
    """The published set-up as a mechanism reads it."""
    return MechanismConfig(
        epsilon=epsilon,
        delta=PUBLISHED_DELTA,
        l2_norm_clip=20.0,
        min_num_examples=scenario.num_examples,
        num_rounds=400,
        batch_size=50,
        num_clients=100,
        cohort_size=10,
    )


class Cell(NamedTuple):
    """A published cell, the formula's noise and the noise that it would need."""

    table: str
    mechanism: str
    epsilon: float
    share: float  # of the published FedAvg's final-five accuracy
    formula: float  # std of the averaged noise
    needed: noise_response.Reading

    @property
    def factor(self) -> noise_response.Reading:
        """Needed over formula."""
        return noise_response.quotient(self.needed, self.formula)


def cells(
    evidence: Evidence, scenario: Scenario, curve: noise_response.Response
) -> list[Cell]:
    """The published cells of a scenario, both tables, with their noise."""
    found = []
    formulas: dict[tuple[str, float], float] = {}
    for table in ("fedsva_table1", "fedsdp_table1"):
        own = [
            cell
            for cell in evidence.published[table]["cells"]
            if cell["scenario"] == scenario.name
        ]
        fedavg = next(cell["last5"] for cell in own if cell["mechanism"] == "none")
        for cell in own:
            if cell["mechanism"] == "none":
                continue
            key = (cell["mechanism"], cell["epsilon"])
            if key not in formulas:
                formulas[key] = noise_response.formula_std(
                    key[0], published_config(scenario, key[1])
                )
            share = cell["last5"] / fedavg
            found.append(
                Cell(
                    evidence.published[table]["title"],
                    *key,
                    share,
                    formulas[key],
                    noise_response.noise_needed(curve, share),
                )
            )
    return found


_PICTURE = ("![accuracy against noise](images/noise_response.png)\n",)


def question_block(scenario: Scenario) -> Callable[[Evidence], str]:
    """A block: formula, need and conventions of one scenario."""

    def block(evidence: Evidence) -> str:
        found = response_of(evidence, scenario)
        if found is None:
            return f"Not measured yet: `{preset_command(scenario.response + SMALL)}`.\n"
        result, curve = found
        known = cells(evidence, scenario, curve)
        settings = result["settings"]
        measured = [one for one in SCENARIOS if response_of(evidence, one)]
        return "\n".join(
            [
                *(_PICTURE if scenario == measured[0] else ()),
                f"Curve: {settings['model']} on {settings['dataset']}, "
                f"{settings['num_rounds']} rounds, {len(result['groups']) - 1} stds, "
                f"`{preset_command(result['preset'])}`, {result['date']}, "
                f"{result['device_kind']}.\n",
                _curve_table(result),
                _check_of_the_curve(evidence, scenario, curve),
                _cell_table(known, curve),
                _plain_answer(known),
                _convention_table(known, scenario),
            ]
        )

    return block


def _curve_table(result: Result) -> str:
    fedavg = mean_accuracy(results.group_of(result, "none")) or math.nan
    rows = []
    for group in result["groups"]:
        mean = mean_accuracy(group) or math.nan
        std = results.noise_std(group)
        rows.append([f"{std:.3g}", f"{100 * mean:.2f}", f"{100 * mean / fedavg:.0f}%"])
    head = ["std of the averaged noise", "last five %", "share of noiseless"]
    return markdown_table(head, rows)


def _check_of_the_curve(
    evidence: Evidence, scenario: Scenario, curve: noise_response.Response
) -> str:
    """Do the mechanisms' own runs lie on the curve? Then noise is all that matters."""
    gaps = []
    for preset in scenario.tables:
        for _, result in sizes(evidence, preset):
            fedavg = mean_accuracy(results.group_of(result, "none"))
            for group in result["groups"]:
                mean = mean_accuracy(group)
                if group["mechanism"] != "none" and fedavg and mean is not None:
                    std = results.noise_std(group)
                    gap = mean / fedavg - noise_response.share_at(curve, std)
                    gaps.append(abs(gap))
    if not gaps:
        return ""
    return (
        f"The mechanisms' own runs against this curve, at the noise that each of them "
        f"had: {len(gaps)} cells, mean difference {100 * sum(gaps) / len(gaps):.1f} "
        f"points of share, at most {100 * max(gaps):.1f}.\n"
    )


def _cell_table(known: Sequence[Cell], curve: noise_response.Response) -> str:
    head = [
        "table",
        "mechanism",
        "ε",
        "formula's std",
        "share there",
        "published share",
        "std that it needs",
        "needed / formula",
        "as printed",
    ]
    rows = [
        [
            cell.table,
            mechanisms.mechanism_label(cell.mechanism),
            labels.significant(cell.epsilon),
            f"{cell.formula:.3g}",
            f"{100 * noise_response.share_at(curve, cell.formula):.0f}%",
            f"{100 * cell.share:.0f}%",
            _reading(cell.needed),
            _reading(cell.factor),
            "follows" if noise_response.agrees(cell.factor, 1.0) else "does not follow",
        ]
        for cell in known
    ]
    return markdown_table(head, rows)


def _plain_answer(known: Sequence[Cell]) -> str:
    """The sentences: what follows, by what factor, and what no convention can mend."""
    follow = [cell for cell in known if noise_response.agrees(cell.factor, 1.0)]
    exact = [cell.factor.least for cell in known if cell.factor.exact]
    lines = [
        f"- As printed, {len(follow)} of {len(known)} published cells follow: formula "
        f"and need within a factor of {noise_response.FACTOR:g}."
    ]
    if exact:
        spread = max(exact) / min(exact)
        lines.append(
            f"- The cells ask for the printed noise times {min(exact):.3g} to "
            f"{max(exact):.3g}. That is a range of {spread:.3g}"
            + (
                ": no single factor brings them all together."
                if spread > noise_response.FACTOR**2
                else ": one factor could bring them together."
            )
        )
    for table in dict.fromkeys(cell.table for cell in known):
        guided = "fedsva" if "FedSVA" in table else "fedsdp"
        by_name = {
            (cell.mechanism, cell.epsilon): cell
            for cell in known
            if cell.table == table and cell.needed.exact
        }
        quotients = [
            (other.needed.least / own.needed.least, own.formula / other.formula)
            for (mechanism, epsilon), other in by_name.items()
            if mechanism == "nbafl" and (own := by_name.get((guided, epsilon)))
        ]
        if quotients:
            needs = [need for need, _ in quotients]
            formulas = [formula for _, formula in quotients]
            lines.append(
                f"- {table}: at one ε, NbAFL's accuracies need {min(needs):.3g} to "
                f"{max(needs):.3g} times the noise that "
                f"{mechanisms.mechanism_label(guided)}'s need, while the formulas give "
                f"{mechanisms.mechanism_label(guided)} {min(formulas):.3f} to "
                f"{max(formulas):.3f} times NbAFL's. Every convention below changes "
                "both alike."
            )
    return "\n".join(lines) + "\n"


def _convention_table(known: Sequence[Cell], scenario: Scenario) -> str:
    rows, counts = [], []
    for convention in noise_response.conventions(published_config(scenario, 0.2)):
        follow = [noise_response.agrees(c.factor, convention.factor) for c in known]
        counts.append(sum(follow))
        rows.append(
            [
                convention.budget,
                convention.bound,
                f"{convention.factor:.3g}",
                f"{sum(follow)} of {len(known)}",
            ]
        )
    most = max(counts)
    best = [
        f"{row[0]}, {row[1]}"
        for row, count in zip(rows, counts, strict=True)
        if count == most
    ]
    answer = (
        f"Most cells follow, {most} of {len(known)}, under: {'; '.join(best)}.\n"
        if most
        else "Under no convention does a cell follow.\n"
    )
    head = ["what ε covers", "what C bounds", "factor on σ", "cells that follow"]
    return markdown_table(head, rows) + "\n" + answer


def _reading(reading: noise_response.Reading) -> str:
    if reading.exact:
        return f"{reading.least:.3g}"
    if reading.least == 0:
        return f"< {reading.most:.3g}"
    return f"> {reading.least:.3g}"
