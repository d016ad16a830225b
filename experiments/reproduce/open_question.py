"""Are the published accuracies consistent with the published noise? Blocks of the page.

A published accuracy, as a share of the published FedAvg's, is looked up on a measured
curve of accuracy against noise. The noise found there is compared with the formula's.

Only some of the formulas are printed in a paper that we have. The others are our
reconstructions, and their cells are counted apart everywhere: they say nothing about a
printed formula.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.report import labels
from fedsvp_jax.report.text_table import markdown

from ..presets import SMALL
from . import converged, noise_response, results
from .evidence import (
    SCENARIOS,
    TO_CONVERGENCE,
    Evidence,
    Scenario,
    mean_accuracy,
    preset_command,
    sizes,
)
from .results import Result

PUBLISHED_DELTA = 0.02
PUBLISHED_CLIP = 20.0


def response_of(
    evidence: Evidence, scenario: Scenario
) -> tuple[Result, noise_response.Response] | None:
    """The measured noise response of a scenario, full size if there is one.

    None while stds that are planned are missing: where the curve ends too early, noise
    beyond it would pass as harmless.
    """
    measured = sizes(evidence, scenario.response)
    if not measured:
        return None
    result = measured[-1][1]
    noiseless = mean_accuracy(results.group_of(result, "none"))
    noisy = [g for g in result["groups"] if g["mechanism"] == "gaussian"]
    planned = converged.NOISE_STDS.get(result["preset"], ())
    if noiseless is None or len(noisy) < max(2, len(planned)):
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

    @property
    def factor(self) -> noise_response.Reading:
        """The needed noise divided by the formula's."""
        return noise_response.quotient(self.needed, self.formula)

    @property
    def has_printed_formula(self) -> bool:
        """Whether the formula is a paper's, as opposed to our reconstruction."""
        return not mechanisms.is_reconstruction(self.mechanism)


def _by_formula(published: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells with a printed formula and those with a reconstructed one, if any."""
    groups = {
        name: [cell for cell in published if cell.has_printed_formula == printed]
        for name, printed in (("printed", True), ("reconstructed", False))
    }
    return {name: group for name, group in groups.items() if group}


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


_PICTURE = ("![accuracy against noise](images/noise_response.svg)\n",)


def question_block(scenario: Scenario) -> Callable[[Evidence], str]:
    """The block of one scenario: formula, needed noise and conventions."""

    def block(evidence: Evidence) -> str:
        response = response_of(evidence, scenario)
        if response is None:
            name = scenario.response
            command = preset_command(TO_CONVERGENCE.get(name, name + SMALL))
            return f"Not measured yet: `{command}`.\n"
        result, curve = response
        published = cells(evidence, scenario, curve)
        settings = result["settings"]
        measured = [one for one in SCENARIOS if response_of(evidence, one)]
        return "\n".join(
            [
                *(_PICTURE if scenario == measured[0] else ()),
                f"The curve was measured with {settings['model']} on "
                f"{settings['dataset']}, {settings['num_rounds']} rounds and "
                f"{len(_curve_groups(result)) - 1} stds (`"
                f"{preset_command(result['preset'])}`, {result['date']}, "
                f"{result['device_kind']}).\n",
                _curve_table(result),
                _check_of_the_curve(evidence, scenario, curve),
                _cell_table(evidence, scenario, published, curve),
                _plain_answer(published),
                _convention_table(published, scenario),
            ]
        )

    return block


def _curve_groups(result: Result) -> list[Result]:
    """The groups of the curve, the one without noise first."""
    groups = [g for g in result["groups"] if g["mechanism"] in ("none", "gaussian")]
    return sorted(groups, key=lambda group: group["noise_std"] or 0.0)


def _curve_table(result: Result) -> str:
    fedavg = mean_accuracy(results.group_of(result, "none")) or math.nan
    rows = []
    for group in _curve_groups(result):
        mean = mean_accuracy(group) or math.nan
        std = results.noise_std(group)
        rows.append(
            {
                "seeds": str(len(group["seeds"])),
                "std of the averaged noise": f"{std:.3g}",
                "accuracy % (last 5)": f"{100 * mean:.2f}",
                "share of the noise-free accuracy": f"{100 * mean / fedavg:.0f}%",
            }
        )
    return markdown(rows)


def _runs_of(evidence: Evidence, scenario: Scenario) -> list[Result]:
    """The results in which the mechanisms themselves ran, each once."""
    found = [
        result for preset in scenario.tables for _, result in sizes(evidence, preset)
    ]
    return list({result["preset"]: result for result in found}.values())


def measured_share(
    evidence: Evidence, scenario: Scenario, mechanism: str, epsilon: float
) -> float | None:
    """The mechanism's measured share of the noise-free accuracy."""
    for result in reversed(_runs_of(evidence, scenario)):
        fedavg = mean_accuracy(results.group_of(result, "none"))
        mean = mean_accuracy(results.group_of(result, mechanism, epsilon))
        if fedavg and mean is not None:
            return mean / fedavg
    return None


def _check_of_the_curve(
    evidence: Evidence, scenario: Scenario, curve: noise_response.Response
) -> str:
    """Whether the mechanisms' runs lie on the curve, so that only noise matters."""
    gaps = []
    for result in _runs_of(evidence, scenario):
        fedavg = mean_accuracy(results.group_of(result, "none"))
        for group in result["groups"]:
            mean = mean_accuracy(group)
            if group["mechanism"] in ("none", "gaussian") or not fedavg or mean is None:
                continue
            share = noise_response.share_at(curve, results.noise_std(group))
            gaps.append(abs(mean / fedavg - share))
    if not gaps:
        return ""
    return (
        f"Check of the curve: in {len(gaps)} cells that the mechanisms themselves ran, "
        "the share of the noise-free accuracy differs from the curve's value at the "
        f"same noise by {100 * sum(gaps) / len(gaps):.1f} percentage points on average "
        f"and by at most {100 * max(gaps):.1f}.\n"
    )


def _cell_table(
    evidence: Evidence,
    scenario: Scenario,
    published: Sequence[Cell],
    curve: noise_response.Response,
) -> str:
    def measured(cell: Cell) -> str:
        share = measured_share(evidence, scenario, cell.mechanism, cell.epsilon)
        return "–" if share is None else percent(share)

    rows = [
        {
            "table": cell.table,
            "mechanism": mechanisms.mechanism_label(cell.mechanism),
            "formula": "printed" if cell.has_printed_formula else "reconstructed",
            "ε": labels.significant(cell.epsilon),
            "std by the formula": f"{cell.formula:.3g}",
            "share at that std": percent(noise_response.share_at(curve, cell.formula)),
            "share of the mechanism's own run": measured(cell),
            "published share": percent(cell.share),
            "std that it needs": _reading(cell.needed),
            "needed ÷ formula": _reading(cell.factor),
            "the formula": "is consistent"
            if noise_response.agrees(cell.factor, 1.0)
            else "is not consistent",
        }
        for cell in published
    ]
    return markdown(rows)


def percent(value: float) -> str:
    """`29%` of 0.29."""
    return f"{100 * value:.0f}%"


def _plain_answer(published: Sequence[Cell]) -> str:
    """Sentences: which cells are consistent, and what no convention can explain."""
    lines = [
        sentence
        for name, group in _by_formula(published).items()
        for sentence in _formula_answer(name, group)
    ]
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
                f"to {max(needs):.3g} times as much noise as {label}'s, while by "
                + (
                    f"our reconstruction of {label}'s formula"
                    if mechanisms.is_reconstruction(guided)
                    else "the printed formulas"
                )
                + f" {label} has {min(formulas):.3f} to {max(formulas):.3f} "
                "times as much noise as NbAFL. The conventions below cannot explain "
                "this, since each changes both by the same factor."
            )
    return "\n".join(lines) + "\n"


def _formula_answer(name: str, group: Sequence[Cell]) -> list[str]:
    """Sentences about the cells of the printed or of the reconstructed formulas."""
    known = ", ".join(
        dict.fromkeys(mechanisms.mechanism_label(cell.mechanism) for cell in group)
    )
    consistent = [cell for cell in group if noise_response.agrees(cell.factor, 1.0)]
    whose = {
        "printed": f"The printed formulas ({known}) are",
        "reconstructed": f"Our reconstructed formulas ({known}) are",
    }[name]
    lines = [
        f"- {whose} consistent with {len(consistent)} of {len(group)} published cells: "
        "there, the formula's noise and the needed noise differ by at most a factor "
        f"of {noise_response.FACTOR:g}."
    ]
    if name == "reconstructed":
        lines[0] += (
            " The constants of these formulas are our choice, so their cells say "
            "nothing about what the papers printed."
        )
    exact = [cell.factor.least for cell in group if cell.factor.exact]
    if exact:
        spread = max(exact) / min(exact)
        lines.append(
            f"- To reach the {len(exact)} published accuracies of these mechanisms "
            f"that lie on the curve, the {name} noise would have to be multiplied by "
            f"{min(exact):.3g} to {max(exact):.3g}. The largest of these factors is "
            f"{spread:.3g} times the smallest, so "
            + (
                "no single factor explains all of these cells."
                if spread > noise_response.FACTOR**2
                else "a single factor could explain all of these cells."
            )
        )
    return lines


def _convention_table(published: Sequence[Cell], scenario: Scenario) -> str:
    groups = _by_formula(published)
    conventions = noise_response.conventions(published_config(scenario, 0.2))
    counts = {
        name: [
            sum(noise_response.agrees(cell.factor, c.factor) for cell in group)
            for c in conventions
        ]
        for name, group in groups.items()
    }
    rows = [
        {
            "what ε covers": convention.budget,
            "what C bounds": convention.bound,
            "factor on σ": f"{convention.factor:.3g}",
            **{
                f"consistent cells with a {name} formula": (
                    f"{counts[name][i]} of {len(group)}"
                )
                for name, group in groups.items()
            },
        }
        for i, convention in enumerate(conventions)
    ]
    answers = []
    for name, group in groups.items():
        most = max(counts[name])
        best = [
            f"{convention.budget}, {convention.bound}"
            for convention, count in zip(conventions, counts[name], strict=True)
            if count == most
        ]
        answers.append(
            f"The best-matching convention explains {most} of the {len(group)} "
            f"published cells with a {name} formula: {'; or '.join(best)}.\n"
            if most
            else f"No convention explains any cell with a {name} formula.\n"
        )
    return markdown(rows) + "\n" + "\n".join(answers)


def _reading(reading: noise_response.Reading) -> str:
    if reading.exact:
        return f"{reading.least:.3g}"
    if reading.least == 0:
        return f"< {reading.most:.3g}"
    return f"> {reading.least:.3g}"
