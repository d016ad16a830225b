"""The findings of docs/reproduction.md: sentences made from the kept results.

Each names its interval, where it has one, and the files that it rests on.
"""

from collections.abc import Callable, Iterator

from fedsvp_jax import mechanisms

from . import (
    closeness,
    estimates,
    kept_cells,
    published_noise,
    results,
)
from .evidence import CONVERGED, SCENARIOS, Evidence, Scenario, sizes
from .noise_response import conventions
from .results import Result

_FOLDER = "docs/results/reproduction/"
_PUBLISHED = f"`{_FOLDER}published.json`"
ENDS = (0.2, 0.5)  # the ε of the sentences; the tables have all
_TITLES = {"cifar10": "CIFAR-10", "femnist": "FEMNIST"}


def findings(evidence: Evidence) -> str:
    """The findings as Markdown: per question a list, numbered throughout."""
    questions = {
        "What was measured": [
            *_progress(evidence),
            *_each(evidence, _fedavg),
        ],
        "Is noise that follows Shapley values more accurate than constant noise at the "
        "same ε?": [*_each(evidence, _guided), *_digits(evidence)],
        "Does the published noise give the published accuracies?": [
            *_each(evidence, _noise_alone),
            *_each(evidence, _two_accuracies),
            *_conventions(evidence),
            *_contradictions(evidence),
        ],
        "What do more attributes cost?": _attributes(evidence),
    }
    lines, number = [], 0
    for question, answers in questions.items():
        sentences = list(answers)
        if sentences:
            lines.append(f"**{question}**\n")
        for sentence in sentences:
            number += 1
            lines.append(f"- *Finding {number}.* {sentence}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _each(
    evidence: Evidence,
    of_scenario: Callable[[Evidence, Scenario, Result], Iterator[str]],
) -> Iterator[str]:
    """The sentences of every scenario that was measured to convergence."""
    for scenario in SCENARIOS:
        found = dict(sizes(evidence, scenario.tables[0])).get(CONVERGED)
        if found is not None and results.group_of(found, "none") is not None:
            yield from of_scenario(evidence, scenario, found)


def _title(found: Result) -> str:
    return _TITLES[found["settings"]["dataset"]]


def _files(found: Result, *names: str) -> str:
    """`docs/results/…/NAME-*` of cells in the scenario's folder."""
    folder = f"{_FOLDER}medium/{found['settings']['dataset']}/"
    return ", ".join(f"`{folder}{name}-*`" for name in names)


def _progress(evidence: Evidence) -> Iterator[str]:
    *_, total = kept_cells.progress(evidence.measured, evidence.published)
    cells = list(closeness.pairs(evidence))
    near = sum(abs(a - b) <= closeness.NEAR for a, b in (c.accuracies for c in cells))
    lost = sum(abs(a - b) <= closeness.NEAR for a, b in (c.losses for c in cells))
    long_enough = total["at a length at which FedAvg has converged"]
    yield (
        "**A run of ours, with smaller models, stands beside "
        f"{total['measured']} of the {total['published cells']} published cells; "
        f"{near} agree within {closeness.NEAR:g} points in accuracy, {lost} in the "
        "loss against FedAvg** (FedSVA's Tables 1 and 2, FedSDP's Table I). The runs "
        "have the published C, clients, cohort and local epochs and the σ of the "
        f"papers' clients; {total['with 3 seeds']} have three seeds, {long_enough} as "
        "many rounds as FedAvg needs to converge, and "
        f"{total['still gaining a point themselves']} still gain a point or more in "
        "their last fifth, mostly because their noise falls by schedule. "
        "Files: `docs/results/reproduction/medium/`."
    )


def _fedavg(evidence: Evidence, scenario: Scenario, found: Result) -> Iterator[str]:
    del evidence
    fedavg = results.group_of(found, "none")
    accuracy = estimates.of_seeds(fedavg["last5"]) if fedavg else None
    if fedavg is None or accuracy is None:
        return
    settings = found["settings"]
    gain = 100 * sum(fedavg["gain"]) / len(fedavg["gain"])
    yield (
        f"**{_title(found)}: FedAvg reaches {accuracy.text('%')}** with "
        f"`{settings['model']}` in {settings['num_rounds']} rounds (published: "
        f"{scenario.name}, 400 rounds). It gains {gain:.1f} points in its last fifth. "
        f"File: {_files(found, 'none')}."
    )


def _guided(evidence: Evidence, scenario: Scenario, found: Result) -> Iterator[str]:
    """FedSVA and FedSDP less NbAFL at both ε, measured and published."""
    for guided, table in (("fedsva", "fedsva_table1"), ("fedsdp", "fedsdp_table1")):
        last5 = evidence.published_last5(table, scenario.name)
        gaps, published, ratios = [], [], []
        for epsilon in ENDS:
            own, nbafl = (
                results.group_of(found, name, epsilon) for name in (guided, "nbafl")
            )
            gap = estimates.gap(own, nbafl)
            if own is None or nbafl is None or gap is None:
                continue
            gaps.append(f"{gap.text('points', '+.1f')} at ε = {epsilon:g}")
            printed = last5[guided, epsilon] - last5["nbafl", epsilon]
            published.append(f"{printed:+.1f}")
            ratios.append(f"{results.noise_std(own) / results.noise_std(nbafl):.3f}")
        if not gaps:
            continue
        label = mechanisms.mechanism_label(guided)
        whose = (
            f" ({label}'s formula is our reconstruction)"
            if mechanisms.is_reconstruction(guided)
            else ""
        )
        yield (
            f"**{_title(found)}: {label} less NbAFL is {' and '.join(gaps)}**; "
            f"published: {' and '.join(published)}{whose}. {label}'s averaged noise is "
            f"{' and '.join(ratios)} times NbAFL's. Part of this is not R: NbAFL's "
            "formula takes the smallest |D|, that of honest-but-curious clients, for "
            f"all. Files: {_files(found, guided, 'nbafl')}."
        )


def _digits(evidence: Evidence) -> Iterator[str]:
    for preset, where in (
        ("gap_digits", "where every client has the same |D|"),
        ("gap_digits_hbc", "where honest-but-curious clients have a smaller |D|"),
    ):
        for _, result in sizes(evidence, preset)[-1:]:
            gap = estimates.gap(
                *(results.group_of(result, name, 0.3) for name in ("fedsva", "nbafl"))
            )
            if gap:
                yield (
                    f"**Digits, {where}: FedSVA less NbAFL is "
                    f"{gap.text('points', '+.1f')} at ε = 0.3.** File: "
                    f"`{_FOLDER}{result['preset']}.json`."
                )


def _noise_alone(
    evidence: Evidence, scenario: Scenario, found: Result
) -> Iterator[str]:
    """How many published accuracies the printed and our formulas' noise explains."""
    measured = published_noise.response_of(evidence, scenario)
    if measured is None:
        return
    cells = published_noise.cells(evidence, scenario, measured)
    for printed, whose in (
        (True, "printed formulas"),
        (False, "formulas reconstructed by us"),
    ):
        group = [cell for cell in cells if cell.has_printed_formula == printed]
        agree = sum(cell.consistent for cell in group)
        by_seed = [
            sum(by_curve)
            for by_curve in zip(*(c.consistent_by_seed for c in group), strict=True)
        ]
        sure = (
            f"{min(by_seed)} to {max(by_seed)} by the curves of {len(by_seed)} seeds"
            if len(by_seed) > 1
            else "1 seed, no interval"
        )
        factors = [cell.factor.least for cell in group if cell.factor.exact]
        between = (
            f" The {len(factors)} published accuracies that lie on the curve need "
            f"{min(factors):.3g} to {max(factors):.3g} times the formula's noise."
            if factors
            else " None of the published accuracies lies on the measured curve."
        )
        yield (
            f"**{_title(found)}, {whose}: the noise explains {agree} of {len(group)} "
            f"published accuracies** to within a factor of 2 in σ ({sure})."
            f"{between} Files: {_files(found, 'gaussian')}, {_PUBLISHED}."
        )


def _two_accuracies(
    evidence: Evidence, scenario: Scenario, found: Result
) -> Iterator[str]:
    """What the printed lead of FedSVA over NbAFL says about their noise."""
    measured = published_noise.response_of(evidence, scenario)
    if measured is None:
        return
    title = evidence.published["fedsva_table1"]["title"]
    cells = published_noise.cells(evidence, scenario, measured)
    needs, formulas = published_noise.against_nbafl(
        [cell for cell in cells if cell.table == title], "fedsva"
    )
    if needs:
        yield (
            f"**{_title(found)}: at the same ε, NbAFL's published accuracies need "
            f"{min(needs):.3g} to {max(needs):.3g} times the noise that FedSVA's need; "
            "at equal |D| and R = .5 the printed formulas give FedSVA "
            f"{max(formulas):.3f} times NbAFL's noise.** No other meaning of ε, C or "
            "|D| changes this, since it changes both alike. The range is over "
            f"{len(needs)} values of ε. Files: "
            f"{_files(found, 'gaussian')}, {_PUBLISHED}."
        )


def _conventions(evidence: Evidence) -> Iterator[str]:
    """The one meaning of ε, C and |D| that explains most in all scenarios together."""
    counts, total, folders = [], 0, []
    for scenario in SCENARIOS:
        measured = published_noise.response_of(evidence, scenario)
        if measured is None or measured.result["preset"] not in kept_cells.NOISE_STDS:
            continue
        cells = published_noise.cells(evidence, scenario, measured)
        group = [cell for cell in cells if cell.has_printed_formula]
        config = published_noise.published_config(scenario, 0.2)
        counts.append(published_noise.explained(group, conventions(config)))
        folders.append(_files(measured.result, "gaussian"))
        total += len(group)
    if len(counts) < 2:
        return
    sums = [sum(column) for column in zip(*counts, strict=True)]
    best = conventions(config)[sums.index(max(sums))]
    yield (
        f"**Of {len(sums)} meanings that ε, C and |D| could have, the best explains "
        f"{max(sums)} of the {total} published accuracies with printed formulas on "
        f"both data sets together** ({best.budget}; {best.bound}). Files: "
        f"{', '.join(folders)}, {_PUBLISHED}."
    )


def _attributes(evidence: Evidence) -> Iterator[str]:
    """Accuracy and time at N = 5 against N = 2."""
    two, five = (
        dict(sizes(evidence, f"fedsva_table2_n{n}_cifar10")).get(CONVERGED)
        for n in (2, 5)
    )
    if two is None or five is None:
        return
    cells = {
        (c["num_attributes"], c["epsilon"]): c
        for c in evidence.published["fedsva_table2"]["cells"]
    }
    for epsilon in ENDS:
        gap = estimates.gap(
            *(results.group_of(one, "fedsva", epsilon) for one in (five, two))
        )
        if gap:
            published = cells[5, epsilon]["last5"] - cells[2, epsilon]["last5"]
            yield (
                f"**{_title(two)}: FedSVA at N = 5 less N = 2 is "
                f"{gap.text('points', '+.1f')} at ε = {epsilon:g}**; published: "
                f"{published:+.1f}. Files: "
                f"{_files(two, f'fedsva-{epsilon:g}-n5', f'fedsva-{epsilon:g}-n2')}."
            )


def _contradictions(evidence: Evidence) -> Iterator[str]:
    cells = [
        cell
        for table in ("fedsva_table1", "fedsdp_table1")
        for cell in evidence.published[table]["cells"]
    ]
    broken = sum(cell["last5"] > cell["best"] for cell in cells)
    yield (
        f"**{broken} of the {len(cells)} published cells contradict themselves**: the "
        "mean of the last five rounds exceeds the best round. No interval: this is "
        f"arithmetic. File: {_PUBLISHED}."
    )
