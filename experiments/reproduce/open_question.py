"""Are the published accuracies consistent with the published noise? Blocks of the page.

Only some of the formulas are printed in a paper that we have. The others are our
reconstructions, and their cells are counted apart everywhere: they say nothing about a
printed formula.
"""

from collections.abc import Callable, Sequence

from fedsvp_jax import mechanisms
from fedsvp_jax.report import labels
from fedsvp_jax.report.text_table import markdown

from ..presets import SMALL
from . import estimates, noise_response, results
from .evidence import (
    SCENARIOS,
    TO_CONVERGENCE,
    Evidence,
    Scenario,
    preset_command,
    sizes,
)
from .published_noise import (
    Cell,
    cells,
    explained,
    published_config,
    response_of,
)
from .results import Result


def _by_formula(published: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells with a printed formula and those with a reconstructed one, if any."""
    groups = {
        name: [cell for cell in published if cell.has_printed_formula == printed]
        for name, printed in (("printed", True), ("reconstructed", False))
    }
    return {name: group for name, group in groups.items() if group}


_PICTURE = ("![accuracy against noise](images/noise_response.svg)\n",)


def question_block(scenario: Scenario) -> Callable[[Evidence], str]:
    """The block of one scenario: formula, needed noise and conventions."""

    def block(evidence: Evidence) -> str:
        measured = response_of(evidence, scenario)
        if measured is None:
            name = scenario.response
            command = preset_command(TO_CONVERGENCE.get(name, name + SMALL))
            return f"Not measured yet: `{command}`.\n"
        result, curve = measured.result, measured.curve
        published = cells(evidence, scenario, measured)
        settings = result["settings"]
        first = next(one for one in SCENARIOS if response_of(evidence, one))
        return "\n".join(
            [
                *(_PICTURE if scenario == first else ()),
                f"The curve was measured with {settings['model']} on "
                f"{settings['dataset']}, {settings['num_rounds']} rounds and "
                f"{len(_curve_groups(result)) - 1} stds (`"
                f"{preset_command(result['preset'])}`, {result['date']}, "
                f"{result['device_kind']}).\n",
                _curve_table(result),
                _check_of_the_curve(evidence, scenario, curve),
                _cell_table(evidence, scenario, published, curve),
                _convention_table(published, scenario),
            ]
        )

    return block


def _curve_groups(result: Result) -> list[Result]:
    """The groups of the curve, the one without noise first."""
    groups = [g for g in result["groups"] if g["mechanism"] in ("none", "gaussian")]
    return sorted(groups, key=lambda group: group["noise_std"] or 0.0)


def _curve_table(result: Result) -> str:
    fedavg = results.group_of(result, "none")
    rows = []
    for group in _curve_groups(result):
        accuracy = estimates.of_seeds(group["last5"])
        share = estimates.share(group, fedavg)
        rows.append(
            {
                "seeds": ", ".join(map(str, group["seeds"])),
                "std of the averaged noise": f"{results.noise_std(group):.3g}",
                "accuracy % (last 5)": accuracy.cell() if accuracy else "–",
                "share of the noise-free accuracy": percent(share),
            }
        )
    return markdown(rows)


def _runs_of(evidence: Evidence, scenario: Scenario) -> list[Result]:
    """The results in which the mechanisms themselves ran, each once."""
    runs = [
        result for preset in scenario.tables for _, result in sizes(evidence, preset)
    ]
    return list({result["preset"]: result for result in runs}.values())


def measured_share(
    evidence: Evidence, scenario: Scenario, mechanism: str, epsilon: float
) -> float | None:
    """The mechanism's measured share of the noise-free accuracy."""
    for result in reversed(_runs_of(evidence, scenario)):
        group = results.group_of(result, mechanism, epsilon)
        share = estimates.share(group, results.group_of(result, "none"))
        if share is not None:
            return share
    return None


def _check_of_the_curve(
    evidence: Evidence, scenario: Scenario, curve: noise_response.Response
) -> str:
    """Whether the mechanisms' runs lie on the curve, so that only noise matters."""
    gaps = []
    for result in _runs_of(evidence, scenario):
        fedavg = results.group_of(result, "none")
        for group in result["groups"]:
            share = estimates.share(group, fedavg)
            if group["mechanism"] not in ("none", "gaussian") and share is not None:
                at = noise_response.share_at(curve, results.noise_std(group))
                gaps.append(abs(share - at))
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
    rows = [
        {
            "table": cell.table,
            "mechanism": mechanisms.mechanism_label(cell.mechanism),
            "formula": "printed" if cell.has_printed_formula else "reconstructed",
            "ε": labels.significant(cell.epsilon),
            "std by the formula": f"{cell.formula:.3g}",
            "share at that std": percent(noise_response.share_at(curve, cell.formula)),
            "share of the mechanism's own run": percent(
                measured_share(evidence, scenario, cell.mechanism, cell.epsilon)
            ),
            "published share": percent(cell.share),
            "std that it needs": _reading(cell.needed),
            "needed ÷ formula": _reading(cell.factor),
            "needed ÷ formula by seed": _between(cell),
            "consistent by": f"{sum(cell.consistent_by_seed)} of {_seeds(cell)}",
            "the formula": "is consistent" if cell.consistent else "is not consistent",
        }
        for cell in published
    ]
    return markdown(rows)


def percent(value: float | None) -> str:
    """`29%` of 0.29; a dash for None."""
    return "–" if value is None else f"{100 * value:.0f}%"


def _seeds(cell: Cell) -> str:
    number = len(cell.needed_by_seed)
    return f"{number} seed" + ("s" if number > 1 else "")


def _between(cell: Cell) -> str:
    """The least and the largest factor by the seeds' curves; a dash with one seed."""
    if len(cell.needed_by_seed) < 2:
        return "–"
    ends = (
        min(cell.needed_by_seed, key=lambda needed: needed.least),
        max(cell.needed_by_seed, key=lambda needed: needed.most),
    )
    low, high = (
        _reading(noise_response.quotient(needed, cell.formula)) for needed in ends
    )
    return low if low == high else f"{low} to {high}"


def _convention_table(published: Sequence[Cell], scenario: Scenario) -> str:
    groups = _by_formula(published)
    conventions = noise_response.conventions(published_config(scenario, 0.2))
    counts = {name: explained(group, conventions) for name, group in groups.items()}
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
