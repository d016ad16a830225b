"""The findings of docs/reproduction.md: sentences made from the kept results.

Each names its interval and the files that it rests on.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from fedsvp_jax import mechanisms

from . import kept_cells, noise_response, open_question, results, schedule_readings
from .evidence import CONVERGED, SCENARIOS, Evidence, Scenario, mean_accuracy, sizes
from .paired_gap import paired_gap
from .results import Result

_PUBLISHED = "`docs/results/reproduction/published.json`"
PUBLISHED_ROUNDS = 400
ENDS = (0.2, 0.5)  # the ε of the sentences; the tables have all


class Estimate(NamedTuple):
    """A number with its 95 % interval, all in percent or points."""

    value: float
    low: float
    high: float
    kind: str  # what the interval is over

    def __str__(self) -> str:
        return (
            f"{self.value:.1f} (95 % interval {self.low:.1f} to {self.high:.1f}, "
            f"{self.kind})"
        )


def accuracy(group: Result, num_test: int) -> Estimate:
    """A group's mean accuracy of the last five rounds, in percent.

    With two or more seeds Student's t over the seeds, else Wilson's interval for the
    test images, which leaves out what another seed would change.
    """
    import scipy.stats

    values = [100 * value for value in group["last5"]]
    mean = sum(values) / len(values)
    if len(values) > 1:
        half = scipy.stats.sem(values) * scipy.stats.t.ppf(0.975, len(values) - 1)
        return Estimate(mean, mean - half, mean + half, f"t, {len(values)} seeds")
    right = round(mean / 100 * num_test)
    drawn = scipy.stats.binomtest(right, num_test).proportion_ci(method="wilson")
    return Estimate(mean, 100 * drawn.low, 100 * drawn.high, "test images, 1 seed")


def gap(first: Result, second: Result, num_test: int) -> Estimate:
    """first − second in percentage points.

    With two or more common seeds a paired t interval, else a normal interval for the
    test images as if the two models were tested on different ones, which is too wide.
    """
    common = sorted(set(first["seeds"]) & set(second["seeds"]))
    a, b = (
        [group["last5"][group["seeds"].index(seed)] for seed in common]
        for group in (first, second)
    )
    if len(common) > 1:
        pair = paired_gap(a, b)
        low, high = pair.t_interval
        kind = f"paired t, {len(common)} seeds"
        return Estimate(100 * pair.mean, 100 * low, 100 * high, kind)
    variance = sum(p * (1 - p) / num_test for p in (a[0], b[0]))
    half = 100 * 1.96 * math.sqrt(variance)
    mean = 100 * (a[0] - b[0])
    return Estimate(mean, mean - half, mean + half, "test images, 1 seed")


def findings(evidence: Evidence) -> str:
    """The list of findings, as Markdown."""
    lines = [
        *_progress(evidence),
        *(line for scenario in SCENARIOS for line in _of_scenario(evidence, scenario)),
        *_contradictions(evidence),
    ]
    return "".join(f"{number}. {line}\n" for number, line in enumerate(lines, 1))


def _progress(evidence: Evidence) -> Iterator[str]:
    *_, total = kept_cells.progress(evidence.measured, evidence.published)
    yield (
        f"**{total['measured']} of the {total['published cells']} published cells** of "
        "FedSVA's Tables 1 and 2 and FedSDP's Table I have a measurement with the "
        "published C, clients, cohort and local epochs and the σ of the paper's "
        f"clients, {total['at a length at which FedAvg has converged']} of them at a "
        "length at which FedAvg gains less than a point in its last fifth. "
        f"{total['still gaining a point themselves']} cells still gain a point or more "
        "themselves, mostly where the noise falls by schedule. "
        f"{total['with 3 seeds']} have three seeds. The models are smaller "
        "than the papers' and the rounds fewer (Settings, below). Files: "
        "`docs/results/reproduction/medium/`."
    )


def _of_scenario(evidence: Evidence, scenario: Scenario) -> Iterator[str]:
    found = dict(sizes(evidence, scenario.tables[0])).get(CONVERGED)
    if found is None:
        return
    fedavg = results.group_of(found, "none")
    if fedavg is None:
        return
    settings = found["settings"]
    num_test, folder = settings["max_test_examples"], settings["dataset"]
    files = f"docs/results/reproduction/medium/{folder}/"
    named = f"{_named(scenario, found)}, {settings['num_rounds']} rounds"
    gain = 100 * sum(fedavg["gain"]) / len(fedavg["gain"])
    yield (
        f"**{named}: FedAvg reaches {accuracy(fedavg, num_test)} %** and gains "
        f"{gain:.1f} points in its last fifth. File: `{files}none-*`."
    )
    yield from _noise_alone(evidence, scenario, files)
    for epsilon in ENDS:
        yield from _guided(evidence, scenario, found, epsilon, files)
    yield from _readings(evidence, scenario, files)


def _named(scenario: Scenario, found: Result) -> str:
    """What was measured, and what it is compared with."""
    settings = found["settings"]
    return f"{settings['model']} on {settings['dataset']} (for {scenario.name})"


def _noise_alone(evidence: Evidence, scenario: Scenario, files: str) -> Iterator[str]:
    """How many published accuracies the printed and our formulas' noise explains."""
    response = open_question.response_of(evidence, scenario)
    if response is None:
        return
    cells = open_question.cells(evidence, scenario, response[1])
    for name, printed in (("printed", True), ("reconstructed by us", False)):
        group = [cell for cell in cells if cell.has_printed_formula == printed]
        agree = sum(noise_response.agrees(cell.factor, 1.0) for cell in group)
        factors = [cell.factor.least for cell in group if cell.factor.exact]
        between = (
            f"; the published accuracies need {min(factors):.3g} to {max(factors):.3g} "
            "times the formula's noise"
            if factors
            else "; none of the published accuracies lies on the measured curve"
        )
        yield (
            f"**{_named(scenario, response[0])}, formulas {name}: the noise is "
            f"consistent with {agree} of {len(group)} published cells** to within a "
            f"factor of 2 in σ{between} "
            f"({len(factors)} cells lie on the curve). Files: `{files}gaussian-*`, "
            f"{_PUBLISHED}."
        )


def _guided(
    evidence: Evidence, scenario: Scenario, found: Result, epsilon: float, files: str
) -> Iterator[str]:
    """FedSVA less NbAFL at one ε, measured and published."""
    pair = [results.group_of(found, name, epsilon) for name in ("fedsva", "nbafl")]
    if None in pair:
        return
    fedsva, nbafl = pair
    assert fedsva is not None and nbafl is not None
    if not set(fedsva["seeds"]) & set(nbafl["seeds"]):
        return
    measured = gap(fedsva, nbafl, found["settings"]["max_test_examples"])
    published = {
        cell["mechanism"]: cell["last5"]
        for cell in evidence.published_cells("fedsva_table1", scenario.name)
        if cell["epsilon"] == epsilon
    }
    ratio = results.noise_std(fedsva) / results.noise_std(nbafl)
    yield (
        f"**{_named(scenario, found)}, ε = {epsilon:g}: FedSVA less NbAFL is "
        f"{measured} points**; published: "
        f"{published['fedsva'] - published['nbafl']:+.1f}. FedSVA's averaged "
        f"noise is {ratio:.3f} times NbAFL's, of which the smaller |D| of "
        "honest-but-curious clients, which NbAFL's formula takes for all, is a part. "
        f"Files: `{files}fedsva-{epsilon:g}-*`, `{files}nbafl-{epsilon:g}-*`."
    )


def _readings(evidence: Evidence, scenario: Scenario, files: str) -> Iterator[str]:
    """Time-Varying DP by both readings of its level."""
    response = open_question.response_of(evidence, scenario)
    if response is None:
        return
    curve = response[1]
    shares = []
    for reading in schedule_readings.READINGS:
        config = open_question.published_config(scenario, 0.2)
        std = noise_response.formula_std(
            "time_varying", schedule_readings.read_as(config, "time_varying", reading)
        )
        shares.append(100 * noise_response.share_at(curve, std))
    cells = evidence.published_cells("fedsva_table1", scenario.name)
    fedavg = next(cell["last5"] for cell in cells if cell["mechanism"] == "none")
    (cell,) = (
        c for c in cells if (c["mechanism"], c["epsilon"]) == ("time_varying", 0.2)
    )
    label = mechanisms.mechanism_label("time_varying")
    yield (
        f"**{_named(scenario, response[0])}, {label} at ε = 0.2 (ours):** at the noise "
        f"of an equal budget {shares[0]:.0f} % of the noise-free accuracy are left, at "
        f"the noise that starts at NbAFL's level {shares[1]:.0f} %; published: "
        f"{100 * cell['last5'] / fedavg:.0f} %. Files: `{files}gaussian-*`, "
        f"{_PUBLISHED}."
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
    for preset in ("gap_digits", "gap_digits_hbc"):
        for _, result in sizes(evidence, preset)[-1:]:
            nbafl, fedsva = (
                results.group_of(result, name, 0.3) for name in ("nbafl", "fedsva")
            )
            if nbafl and fedsva and mean_accuracy(nbafl) is not None:
                where = (
                    "where every client has the same |D|"
                    if preset == "gap_digits"
                    else "where honest-but-curious clients have a smaller |D|"
                )
                yield (
                    f"**Digits, {where}: FedSVA less NbAFL is "
                    f"{gap(fedsva, nbafl, 1)} points.** File: "
                    f"`docs/results/reproduction/{result['preset']}.json`."
                )
