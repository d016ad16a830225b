"""The findings on the page against numbers that plain Python takes from the files."""

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs"
KEPT = DOCS / "results" / "reproduction"
SCENARIOS = {"CNN @ FEMNIST": "femnist", "ResNet-18 @ CIFAR-10": "cifar10"}
TITLES = {"femnist": "FEMNIST", "cifar10": "CIFAR-10"}
OLD_NAMES = {"sensitivity": "reestimation"}  # of the published tables' file
T = {2: 12.7062, 3: 4.3027}  # Student's t by the number of seeds, 97.5 %


def sentences() -> list[str]:
    page = (DOCS / "results" / "reproduction.md").read_text()
    return re.findall(r"^- \*Finding \d+\.\* (.*)$", page, flags=re.MULTILINE)


def last5(dataset: str, stem: str) -> dict[int, float]:
    """By seed, the accuracy of the last five rounds in percent."""
    values = {}
    for path in (KEPT / "medium" / dataset).glob(f"{stem}-s*.json"):
        cell = json.loads(path.read_text())
        values[cell["seed"]] = 100 * statistics.fmean(cell["accuracy"][-5:])
    return values


def published() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The 92 cells: table, the start of their files' names, and what is printed."""
    for table in json.loads((KEPT / "published.json").read_text())["tables"]:
        for cell in table["cells"] if "table" in table["id"] else ():
            dataset = SCENARIOS[cell.get("scenario", "ResNet-18 @ CIFAR-10")]
            name = cell.get("mechanism", "fedsva")
            name = OLD_NAMES.get(name, name)
            level = "" if cell["epsilon"] is None else f"-{cell['epsilon']:g}"
            stem = f"{name}{level}-n{cell.get('num_attributes', 2)}"
            yield table["id"], f"{dataset} {stem}", cell


def shown(values: list[float], unit: str, form: str) -> str:
    """A mean over seeds as the page prints it."""

    def number(value: float) -> str:
        text = format(value, form)
        return text.lstrip("+-") if not float(text) else text.replace("-", "−")

    mean = statistics.fmean(values)
    if len(values) == 1:
        return f"{number(mean)} {unit} (1 seed, no interval)"
    half = T[len(values)] * statistics.stdev(values) / len(values) ** 0.5
    low, high = number(mean - half), number(mean + half)
    seeds = len(values)
    return f"{number(mean)} {unit} (95 % interval {low} to {high}, {seeds} seeds)"


def test_the_counts_of_cells_are_those_of_the_files() -> None:
    cells = [(stem.split(), table, cell) for table, stem, cell in published()]
    ours = [last5(*stem) for stem, _, _ in cells]
    measured, three = sum(map(bool, ours)), sum(len(one) >= 3 for one in ours)
    printed_base = {
        (table, dataset): cell["last5"]
        for (dataset, name), table, cell in cells
        if name == "none-n2"
    }
    near = lost = 0
    for ((dataset, _), table, cell), values in zip(cells, ours, strict=True):
        mean = statistics.fmean(values.values())
        base = statistics.fmean(last5(dataset, "none-n2").values())
        table = table.replace("fedsva_table2", "fedsva_table1")
        share = cell["last5"] / printed_base[table, dataset]
        near += abs(mean - cell["last5"]) <= 3
        lost += abs(100 * (mean / base - share)) <= 3
    (first, *_) = sentences()
    assert first.startswith(
        f"**A run of ours, with smaller models, stands beside {measured} of the "
        f"{len(cells)} published cells; {near} agree within 3 points in accuracy, "
        f"{lost} in the loss against FedAvg**"
    )
    assert f"{three} have three seeds" in first
    broken = sum("best" in c and c["last5"] > c["best"] for _, _, c in published())
    assert any(s.startswith(f"**{broken} of the 84 published") for s in sentences())


def test_accuracies_and_gaps_are_those_of_the_files() -> None:
    checked = 0
    for dataset, title in TITLES.items():
        fedavg = shown([*last5(dataset, "none-n2").values()], "%", ".1f")
        (line,) = (s for s in sentences() if s.startswith(f"**{title}: FedAvg"))
        assert f"reaches {fedavg}**" in line
        printed = {
            (table, stem): cell["last5"]
            for table, stem, cell in published()
            if stem.startswith(dataset)
        }
        for guided, label in (("fedsva", "FedSVA"), ("fedsdp", "FedSDP")):
            start = f"**{title}: {label} less NbAFL"
            for line in (s for s in sentences() if s.startswith(start)):
                for epsilon in re.findall(r" at ε = (0\.\d)", line):
                    stems = [f"{name}-{epsilon}-n2" for name in (guided, "nbafl")]
                    own, nbafl = (last5(dataset, stem) for stem in stems)
                    gaps = [own[s] - nbafl[s] for s in sorted(own) if s in nbafl]
                    assert shown(gaps, "points", "+.1f") in line
                    both = [
                        printed[f"{guided}_table1", f"{dataset} {s}"] for s in stems
                    ]
                    assert f"{both[0] - both[1]:+.1f}" in line.split("published: ")[1]
                    checked += 1
    assert checked >= 4
