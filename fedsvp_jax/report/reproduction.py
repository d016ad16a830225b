"""docs/reproduction.md: measured columns beside the published ones.

The page is written by hand but for its blocks (`report.blocks`), whose content is a
function of the files of docs/results/reproduction. A statement in a
block is a comparison of two numbers, made here; none is typed.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.report import blocks, labels, noise_response, results, tables
from fedsvp_jax.report.paired_gap import paired_gap
from fedsvp_jax.report.results import Result

_SMALL = "_small"


class Scenario(NamedTuple):
    """A column of the published tables, and where its noise response is measured."""

    name: str
    num_examples: float  # |D|, the training part (80%) of a client's data
    response: str  # preset
    tables: tuple[str, ...]  # presets of the same data


SCENARIOS = (
    Scenario(  # 5% of 50,000
        "ResNet-18 @ CIFAR-10",
        2_000.0,
        "noise_response_cifar10",
        ("fedsva_table1_cifar10", "fedsdp_table1_cifar10"),
    ),
    Scenario(  # read as the public code does: 5% of EMNIST ByClass's 697,932
        "CNN @ FEMNIST",
        27_917.0,
        "noise_response_emnist",
        ("fedsva_table1_emnist", "fedsdp_table1_emnist"),
    ),
    Scenario(  # read as the paper cites: LEAF's 805,263 images of 3,550 writers, 90%
        "CNN @ FEMNIST",
        163.0,
        "noise_response_leaf",
        ("fedsva_table1_leaf",),
    ),
)
# preset -> (published table, scenario)
TABLES = {
    "fedsva_table1_cifar10": ("fedsva_table1", SCENARIOS[0].name),
    "fedsva_table1_emnist": ("fedsva_table1", SCENARIOS[1].name),
    "fedsva_table1_leaf": ("fedsva_table1", SCENARIOS[1].name),
    "fedsdp_table1_cifar10": ("fedsdp_table1", SCENARIOS[0].name),
    "fedsdp_table1_emnist": ("fedsdp_table1", SCENARIOS[1].name),
}
NOISE_FIGURES = ("fedsva_fig2_cifar10", "fedsdp_fig3_emnist")
CONTRIBUTION = "fedsdp_fig1_cifar10"
GAPS = ("gap_digits", "gap_digits_hbc", "gap_emnist")
PUBLISHED_DELTA = 0.02


class Evidence(NamedTuple):
    """Everything that the page is made from."""

    measured: dict[str, Result]  # by preset
    published: dict[str, Result]  # by table


def render(page: str, evidence: Evidence) -> str:
    """The page with every block rewritten.

    Raises:
      ValueError: the page lacks a block, or has one that nothing fills.
    """
    return blocks.rewritten(
        page, {name: partial(block, evidence) for name, block in BLOCKS.items()}
    )


def preset_command(name: str) -> str:
    """The command that runs one preset and rewrites the page."""
    small = name.endswith(_SMALL)
    size = "" if small else " --size=full"
    return f"python -m experiments.reproduce{size} --only={name}"


def sizes(evidence: Evidence, name: str) -> list[tuple[str, Result]]:
    """What was measured of a preset: `(size, result)`, small first."""
    found = {"small": name + _SMALL, "full": name}
    return [
        (size, evidence.measured[key])
        for size, key in found.items()
        if key in evidence.measured
    ]


def response_of(
    evidence: Evidence, scenario: Scenario
) -> tuple[Result, noise_response.Response] | None:
    """The largest measured noise response of a scenario."""
    found = sizes(evidence, scenario.response)
    if not found:
        return None
    result = found[-1][1]
    noiseless = _mean(results.group_of(result, "none"))
    noisy = [g for g in result["groups"] if g["mechanism"] == "gaussian"]
    if noiseless is None or len(noisy) < 2:
        return None
    curve = noise_response.response(
        [results.noise_std(group) for group in noisy],
        [_mean(group) or 0.0 for group in noisy],
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
        noise_floor=0.1,
        num_rounds=400,
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


def _runs(evidence: Evidence) -> str:
    rows = [
        [
            name,
            f"`{preset_command(name)}`",
            result["date"],
            result["device_kind"],
            f"{results.seconds(result):.0f}",
        ]
        for name, result in evidence.measured.items()
    ]
    total = sum(results.seconds(result) for result in evidence.measured.values())
    head = ["preset", "command", "date", "device", "seconds"]
    versions = {
        " ".join(f"{k} {v}" for k, v in result["versions"].items())
        for result in evidence.measured.values()
    }
    note = f"Rounds in all: {total:.0f} s. Versions: {'; '.join(sorted(versions))}.\n"
    return _table(head, rows) + "\n" + note


def _accuracies(preset: str) -> Callable[[Evidence], str]:
    """A block: one published table in one scenario, and what was measured."""

    def block(evidence: Evidence) -> str:
        table, scenario = TABLES[preset]
        measured = sizes(evidence, preset)
        head = ["mechanism", "ε", "published best", "last five", "below"]
        for size, _ in measured:
            head += [f"{size}: best", "last five", "below"]
        head += ["command", "date", "device"]
        rows = []
        own = [
            cell
            for cell in evidence.published[table]["cells"]
            if cell["scenario"] == scenario
        ]
        fedavg = next(cell["last5"] for cell in own if cell["mechanism"] == "none")
        for cell in own:
            row = [
                labels.mechanism_label(cell["mechanism"]),
                labels.significant(cell["epsilon"]),
                _published(cell, "best"),
                _published(cell, "last5"),
                _below(cell["last5"], fedavg) if cell["epsilon"] else "–",
            ]
            for _, result in measured:
                row += _measured(result, cell["mechanism"], cell["epsilon"])
            rows.append(row + _provenance([result for _, result in measured]))
        return _table(head, rows)

    return block


def _measured(result: Result, mechanism: str, epsilon: float | None) -> list[str]:
    group = results.group_of(result, mechanism, epsilon)
    if group is None:
        return ["–", "–", "–"]
    fedavg = _mean(results.group_of(result, "none"))
    own = _mean(group)
    known = fedavg is not None and own is not None and mechanism != "none"
    return [
        labels.percent(*tables.mean_std(group["best"])),
        labels.percent(*tables.mean_std(group["last5"])),
        _below(own, fedavg) if known else "–",
    ]


def _attributes(evidence: Evidence) -> str:
    """FedSVA, Table 2: accuracy and run time by N."""
    published = evidence.published["fedsva_table2"]["cells"]
    (fedavg,) = evidence.published["fedsva_runtime"]["cells"]
    base = next(c["seconds"] for c in published if c["num_attributes"] == 2)
    head = [
        "N",
        "ε",
        "published last five",
        "seconds",
        "times N = 2",
        "measured last five",
        "seconds a round",
        "times N = 2",
        "command",
        "date",
        "device",
    ]
    rows = []
    two = _round_seconds(evidence, "fedsva_table2_n2_cifar10", "fedsva")
    rows.append(
        [
            "FedAvg",
            "–",
            "–",
            f"{fedavg['seconds']:,.0f}",
            f"{fedavg['seconds'] / base:.2f}",
            *_timed(evidence, "fedsva_table2_n2_cifar10", "none", None, two),
        ]
    )
    for cell in published:
        preset = f"fedsva_table2_n{cell['num_attributes']}_cifar10"
        rows.append(
            [
                str(cell["num_attributes"]),
                labels.significant(cell["epsilon"]),
                _published(cell, "last5"),
                f"{cell['seconds']:,.0f} ± {cell['seconds_std']:,.0f}",
                f"{cell['seconds'] / base:.2f}",
                *_timed(evidence, preset, "fedsva", cell["epsilon"], two),
            ]
        )
    return _table(head, rows)


def _timed(
    evidence: Evidence,
    preset: str,
    mechanism: str,
    epsilon: float | None,
    base: float | None,
) -> list[str]:
    found = sizes(evidence, preset)
    own = _round_seconds(evidence, preset, mechanism)
    if not found or own is None or base is None:
        return ["–", "–", "–", *_provenance([])]
    result = found[-1][1]
    group = results.group_of(result, mechanism, epsilon)
    last5 = labels.percent(*tables.mean_std(group["last5"])) if group else "–"
    return [last5, f"{own:.3g}", f"{own / base:.2f}", *_provenance([result])]


def _round_seconds(evidence: Evidence, preset: str, mechanism: str) -> float | None:
    """Seconds a round of one cell, without the call that compiles."""
    found = sizes(evidence, preset)
    if not found:
        return None
    result = found[-1][1]
    timing = result["timing"].get(mechanism)
    if not timing or not timing["later_rounds"]:
        return None
    num_cells = sum(
        len(g["seeds"]) for g in result["groups"] if g["mechanism"] == mechanism
    )
    return timing["later_seconds"] / timing["later_rounds"] / num_cells


def _noise(evidence: Evidence) -> str:
    """FedSVA, Fig. 2 and FedSDP, Fig. 3: noise by round and cumulative ε."""
    head = [
        "preset",
        "mechanism",
        "ε",
        "L2 of an upload's noise, first round",
        "middle",
        "last",
        "ε spent, basic",
        "RDP",
        "command",
        "date",
        "device",
    ]
    rows = []
    for preset in NOISE_FIGURES:
        for size, result in sizes(evidence, preset):
            for group in result["groups"]:
                noise, spent = group["noise_l2"], group["epsilon_spent"]
                rows.append(
                    [
                        f"{preset}, {size}",
                        labels.mechanism_label(group["mechanism"]),
                        labels.significant(group["epsilon"]),
                        *(
                            labels.significant(noise[t], 4)
                            for t in (0, len(noise) // 2, -1)
                        ),
                        *(
                            labels.significant(spent[method][-1])
                            for method in ("basic", "rdp")
                        ),
                        *_provenance([result]),
                    ]
                )
    return _table(head, rows)


def _contribution(evidence: Evidence) -> str:
    """FedSDP, Fig. 1: the private data's contribution ratio by round."""
    head = ["ε", "R, first five rounds", "last five", "least", "most"]
    head += ["command", "date", "device"]
    rows = []
    for _, result in sizes(evidence, CONTRIBUTION):
        for group in result["groups"]:
            ratio = [r for r in group["contribution_ratio_mean"] if r is not None]
            numbers = (
                sum(ratio[:5]) / len(ratio[:5]),
                sum(ratio[-5:]) / len(ratio[-5:]),
                min(ratio),
                max(ratio),
            )
            rows.append(
                [
                    labels.significant(group["epsilon"]),
                    *(f"{value:.3f}" for value in numbers),
                    *_provenance([result]),
                ]
            )
    return _table(head, rows)


def _impossible(evidence: Evidence) -> str:
    """Published cells that contradict themselves: a mean of five above the best."""
    lines = []
    for table in ("fedsva_table1", "fedsdp_table1"):
        for cell in evidence.published[table]["cells"]:
            if cell["last5"] > cell["best"]:
                lines.append(
                    f"- {evidence.published[table]['title']}, {cell['scenario']}, "
                    f"{labels.mechanism_label(cell['mechanism'])} at ε = "
                    f"{cell['epsilon']:g}: best {cell['best']:.2f}, last five "
                    f"{cell['last5']:.2f}.\n"
                )
    return "".join(lines) or "None.\n"


def _question(scenario: Scenario) -> Callable[[Evidence], str]:
    """A block: formula, need and conventions of one scenario."""

    def block(evidence: Evidence) -> str:
        found = response_of(evidence, scenario)
        if found is None:
            return (
                f"Not measured yet: `{preset_command(scenario.response + _SMALL)}`.\n"
            )
        result, curve = found
        known = cells(evidence, scenario, curve)
        settings = result["settings"]
        return "\n".join(
            [
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
    fedavg = _mean(results.group_of(result, "none")) or math.nan
    rows = []
    for group in result["groups"]:
        mean = _mean(group) or math.nan
        std = results.noise_std(group)
        rows.append([f"{std:.3g}", f"{100 * mean:.2f}", f"{100 * mean / fedavg:.0f}%"])
    head = ["std of the averaged noise", "last five %", "share of noiseless"]
    return _table(head, rows)


def _check_of_the_curve(
    evidence: Evidence, scenario: Scenario, curve: noise_response.Response
) -> str:
    """Do the mechanisms' own runs lie on the curve? Then noise is all that matters."""
    gaps = []
    for preset in scenario.tables:
        for _, result in sizes(evidence, preset):
            fedavg = _mean(results.group_of(result, "none"))
            for group in result["groups"]:
                mean = _mean(group)
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
            labels.mechanism_label(cell.mechanism),
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
    return _table(head, rows)


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
                f"{labels.mechanism_label(guided)}'s need, while the formulas give "
                f"{labels.mechanism_label(guided)} {min(formulas):.3f} to "
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
    return _table(head, rows) + "\n" + answer


def _gap(evidence: Evidence) -> str:
    """FedSVA against NbAFL at L = 1 and one ε, paired by seed."""
    head = [
        "preset",
        "ε",
        "seeds",
        "FedSVA's σ over NbAFL's",
        "NbAFL last five %",
        "FedSVA last five %",
        "gap in points",
        "95% t",
        "95% bootstrap",
        "holds 0",
        "command",
        "date",
        "device",
    ]
    rows = []
    for preset in GAPS:
        for size, result in sizes(evidence, preset):
            for other in result["groups"]:
                if other["mechanism"] != "nbafl":
                    continue
                own = results.group_of(result, "fedsva", other["epsilon"])
                if own is None or own["seeds"] != other["seeds"]:
                    continue
                gap = paired_gap(own["last5"], other["last5"])
                quotient = results.noise_std(own) / results.noise_std(other)
                rows.append(
                    [
                        f"{preset}, {size}",
                        labels.significant(other["epsilon"]),
                        str(gap.num_seeds),
                        f"{quotient:.4f}",
                        labels.percent(*tables.mean_std(other["last5"])),
                        labels.percent(*tables.mean_std(own["last5"])),
                        f"{100 * gap.mean:+.2f}",
                        _interval(gap.t_interval),
                        _interval(gap.bootstrap_interval),
                        "yes" if gap.contains_zero else "no",
                        *_provenance([result]),
                    ]
                )
    return _table(head, rows)


def _interval(limits: tuple[float, float]) -> str:
    low, high = limits
    return f"{100 * low:+.2f} … {100 * high:+.2f}"


def _reading(reading: noise_response.Reading) -> str:
    if reading.exact:
        return f"{reading.least:.3g}"
    if reading.least == 0:
        return f"< {reading.most:.3g}"
    return f"> {reading.least:.3g}"


def _mean(group: Result | None) -> float | None:
    """Mean over seeds of the last five rounds' accuracy."""
    if group is None:
        return None
    return tables.mean_std([v for v in group["last5"] if v is not None])[0]


def _published(cell: dict[str, Any], name: str) -> str:
    std = cell.get(f"{name}_std")
    return f"{cell[name]:.2f}" + (f" ± {std:.2f}" if std is not None else "")


def _below(value: float | None, reference: float | None) -> str:
    if value is None or not reference:
        return "–"
    return f"{100 * (reference - value) / reference:.0f}%"


def _provenance(measured: Sequence[Result]) -> list[str]:
    """Command, date and device of a row; dashes where nothing was measured."""
    if not measured:
        return ["not run", "–", "–"]
    return [
        "; ".join(f"`{preset_command(result['preset'])}`" for result in measured),
        "; ".join(result["date"] for result in measured),
        "; ".join(dict.fromkeys(result["device_kind"] for result in measured)),
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "Not measured yet.\n"
    lines = [head, ["---"] * len(head), *rows]
    escaped = [[text.replace("|D|", "\\|D\\|") for text in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


BLOCKS: dict[str, Callable[[Evidence], str]] = {
    "runs": _runs,
    **{preset: _accuracies(preset) for preset in TABLES},
    "fedsva_table2": _attributes,
    "noise_by_round": _noise,
    "contribution": _contribution,
    "impossible": _impossible,
    "question_cifar10": _question(SCENARIOS[0]),
    "question_emnist": _question(SCENARIOS[1]),
    "question_leaf": _question(SCENARIOS[2]),
    "gap": _gap,
}
