"""Are the published accuracies consistent with the published noise? Blocks of the page.

A published accuracy, as a share of the published FedAvg's, is looked up on a measured
curve of accuracy against noise. The noise found there is compared with the formula's.
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
    """The measured noise response of a scenario, full size if there is one."""
    measured = sizes(evidence, scenario.response)
    if not measured:
        return None
    result = measured[-1][1]
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
    """The settings of the published experiments, as a mechanism takes them."""
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
    """A published cell, the formula's noise, and the noise that it would need."""

    table: str
    mechanism: str
    epsilon: float
    share: float  # of the published FedAvg's final-five accuracy
    formula: float  # std of the averaged noise
    needed: noise_response.Reading

    @property
    def factor(self) -> noise_response.Reading:
        """The needed noise divided by the formula's."""
        return noise_response.quotient(self.needed, self.formula)


def cells(
    evidence: Evidence, scenario: Scenario, curve: noise_response.Response
) -> list[Cell]:
    """The published cells of a scenario in both tables, with their noise."""
    scenario_cells = []
    formulas: dict[tuple[str, float], float] = {}
    for table in ("fedsva_table1", "fedsdp_table1"):
        published = evidence.published_cells(table, scenario.name)
        fedavg = next(
            cell["last5"] for cell in published if cell["mechanism"] == "none"
        )
        for cell in published:
            if cell["mechanism"] == "none":
                continue
            key = (cell["mechanism"], cell["epsilon"])
            if key not in formulas:
                formulas[key] = noise_response.formula_std(
                    key[0], published_config(scenario, key[1])
                )
            share = cell["last5"] / fedavg
            scenario_cells.append(
                Cell(
                    evidence.published[table]["title"],
                    *key,
                    share,
                    formulas[key],
                    noise_response.noise_needed(curve, share),
                )
            )
    return scenario_cells


_PICTURE = ("![accuracy against noise](images/noise_response.png)\n",)


def question_block(scenario: Scenario) -> Callable[[Evidence], str]:
    """The block of one scenario: formula, needed noise and conventions."""

    def block(evidence: Evidence) -> str:
        response = response_of(evidence, scenario)
        if response is None:
            return f"Not measured yet: `{preset_command(scenario.response + SMALL)}`.\n"
        result, curve = response
        published = cells(evidence, scenario, curve)
        settings = result["settings"]
        measured = [one for one in SCENARIOS if response_of(evidence, one)]
        return "\n".join(
            [
                *(_PICTURE if scenario == measured[0] else ()),
                f"The curve was measured with {settings['model']} on "
                f"{settings['dataset']}, {settings['num_rounds']} rounds and "
                f"{len(result['groups']) - 1} stds (`"
                f"{preset_command(result['preset'])}`, {result['date']}, "
                f"{result['device_kind']}).\n",
                _curve_table(result),
                _check_of_the_curve(evidence, scenario, curve),
                _cell_table(published, curve),
                _plain_answer(published),
                _convention_table(published, scenario),
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
    head = [
        "std of the averaged noise",
        "accuracy % (last 5)",
        "share of the noise-free accuracy",
    ]
    return markdown_table(head, rows)


def _check_of_the_curve(
    evidence: Evidence, scenario: Scenario, curve: noise_response.Response
) -> str:
    """Whether the mechanisms' runs lie on the curve, so that only noise matters."""
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
        f"Check of the curve: in {len(gaps)} cells that the mechanisms themselves ran, "
        "the share of the noise-free accuracy differs from the curve's value at the "
        f"same noise by {100 * sum(gaps) / len(gaps):.1f} percentage points on average "
        f"and by at most {100 * max(gaps):.1f}.\n"
    )


def _cell_table(published: Sequence[Cell], curve: noise_response.Response) -> str:
    head = [
        "table",
        "mechanism",
        "ε",
        "std by the formula",
        "share at that std",
        "published share",
        "std that it needs",
        "needed ÷ formula",
        "printed formula",
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
            "is consistent"
            if noise_response.agrees(cell.factor, 1.0)
            else "is not consistent",
        ]
        for cell in published
    ]
    return markdown_table(head, rows)


def _plain_answer(published: Sequence[Cell]) -> str:
    """Sentences: which cells are consistent, and what no convention can explain."""
    consistent = [cell for cell in published if noise_response.agrees(cell.factor, 1.0)]
    exact = [cell.factor.least for cell in published if cell.factor.exact]
    lines = [
        f"- The printed formula is consistent with {len(consistent)} of "
        f"{len(published)} published cells: its noise and the needed noise differ by "
        f"at most a factor of {noise_response.FACTOR:g}."
    ]
    if exact:
        spread = max(exact) / min(exact)
        lines.append(
            f"- To reach the {len(exact)} published accuracies that lie on the curve, "
            f"the printed noise would have to be multiplied by {min(exact):.3g} to "
            f"{max(exact):.3g}. The largest of these factors is {spread:.3g} times the "
            "smallest, so "
            + (
                "no single factor explains all cells."
                if spread > noise_response.FACTOR**2
                else "a single factor could explain all cells."
            )
        )
    for table in dict.fromkeys(cell.table for cell in published):
        guided = "fedsva" if "FedSVA" in table else "fedsdp"
        label = mechanisms.mechanism_label(guided)
        by_name = {
            (cell.mechanism, cell.epsilon): cell
            for cell in published
            if cell.table == table and cell.needed.exact
        }
        quotients = [
            (nbafl.needed.least / cell.needed.least, cell.formula / nbafl.formula)
            for (mechanism, epsilon), nbafl in by_name.items()
            if mechanism == "nbafl" and (cell := by_name.get((guided, epsilon)))
        ]
        if quotients:
            needs = [need for need, _ in quotients]
            formulas = [formula for _, formula in quotients]
            lines.append(
                f"- {table}: at the same ε, NbAFL's accuracies need {min(needs):.3g} "
                f"to {max(needs):.3g} times as much noise as {label}'s, while by the "
                f"formulas {label} has {min(formulas):.3f} to {max(formulas):.3f} "
                "times as much noise as NbAFL. The conventions below cannot explain "
                "this, since each changes both by the same factor."
            )
    return "\n".join(lines) + "\n"


def _convention_table(published: Sequence[Cell], scenario: Scenario) -> str:
    rows, counts = [], []
    for convention in noise_response.conventions(published_config(scenario, 0.2)):
        count = sum(
            noise_response.agrees(c.factor, convention.factor) for c in published
        )
        counts.append(count)
        rows.append(
            [
                convention.budget,
                convention.bound,
                f"{convention.factor:.3g}",
                f"{count} of {len(published)}",
            ]
        )
    most = max(counts)
    best = [
        f"{row[0]}, {row[1]}"
        for row, count in zip(rows, counts, strict=True)
        if count == most
    ]
    answer = (
        f"The best-matching convention explains {most} of {len(published)} published "
        f"cells: {'; or '.join(best)}.\n"
        if most
        else "No convention explains any cell.\n"
    )
    head = ["what ε covers", "what C bounds", "factor on σ", "consistent cells"]
    return markdown_table(head, rows) + "\n" + answer


def _reading(reading: noise_response.Reading) -> str:
    if reading.exact:
        return f"{reading.least:.3g}"
    if reading.least == 0:
        return f"< {reading.most:.3g}"
    return f"> {reading.least:.3g}"
