"""The page's measured columns: published numbers, statements and provenance."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from small_folders import change, read_rows, sweep_dir, whole_sweep, write_rows  # noqa: F401

from experiments.reproduce import noise_response, published_noise, results, tables
from experiments.reproduce.evidence import SCENARIOS, Evidence, load
from experiments.reproduce.figures import write_figures

DOCS = Path(__file__).parents[3] / "docs"
KEPT = DOCS / "results" / "reproduction"
SOURCE = {"date": "2026-01-02", "device_kind": "cpu", "versions": {"jax": "0"}}


def published() -> dict[str, Any]:
    return results.published(KEPT)


def test_the_published_tables_are_whole() -> None:
    counts = {name: len(table["cells"]) for name, table in published().items()}
    assert counts == {
        "fedsva_table1": 42,
        "fedsdp_table1": 42,
        "fedsva_table2": 8,
        "fedsva_runtime": 1,
    }
    for table in published().values():
        assert "Table" in table["source"] or "sec." in table["source"]


def test_fedsdps_printed_percentages_follow_from_its_accuracies() -> None:
    """A slip of the typist's hand would show."""
    cells = published()["fedsdp_table1"]["cells"]
    fedavg = {c["scenario"]: c["last5"] for c in cells if c["mechanism"] == "none"}
    off = {}
    for cell in cells:
        if cell["mechanism"] != "none":
            reference = fedavg[cell["scenario"]]
            below = 100 * (reference - cell["last5"]) / reference
            off[cell["mechanism"], cell["epsilon"], cell["scenario"]] = abs(
                below - cell["last5_below_fedavg"]
            )
    assert max(off.values()) <= 1.0, max(off, key=lambda key: off[key])


def test_known_published_cells() -> None:
    table = published()["fedsva_table1"]["cells"]
    (cell,) = (
        c
        for c in table
        if (c["mechanism"], c["epsilon"]) == ("fedsva", 0.2)
        and "CIFAR" in c["scenario"]
    )
    assert (cell["best"], cell["last5"], cell["last5_std"]) == (75.86, 75.98, 2.71)
    five = [
        c for c in published()["fedsva_table2"]["cells"] if c["num_attributes"] == 5
    ]
    assert [c["seconds"] for c in five] == [286_855, 284_366]


def group(mechanism: str, accuracy: float, **more: Any) -> dict[str, Any]:
    made = {
        "mechanism": mechanism,
        "epsilon": None,
        "noise_std": None,
        "seeds": [0, 1],
        "best": [accuracy, accuracy],
        "last5": [accuracy, accuracy],
        "averaging": 10**-0.5,
        "noise_l2": [1.0, 1.0],
        "noise_std_mean": [0.0, 0.0],
        "contribution_ratio_mean": [None, None],
        "epsilon_spent": {"basic": [0.5, 1.0], "rdp": [0.4, 0.6]},
    }
    return made | more


def result(preset: str, groups: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    timing = {
        name: {"seconds": 9.0, "rounds": 3} for name in {g["mechanism"] for g in groups}
    }
    settings = {"model": "small_cnn", "dataset": "digits", "num_rounds": 2}
    body = {"preset": preset, "command": "c", "timing": timing, "settings": settings}
    return SOURCE | body | {"groups": groups} | more


def known_curve(shift: float) -> dict[str, Any]:
    """A noise response that each of FedSVA's published CIFAR-10 cells follows exactly,
    `shift` times the formula's noise away."""
    noisy = []
    scenario = SCENARIOS[0]
    cells = published()["fedsva_table1"]["cells"]
    for cell in cells:
        if cell["scenario"] == scenario.name and cell["mechanism"] == "fedsva":
            config = published_noise.published_config(scenario, cell["epsilon"])
            std = noise_response.formula_std("fedsva", config)
            upload = shift * std * math.sqrt(10)
            noisy.append(
                group(
                    "gaussian",
                    cell["last5"] / 84.33,
                    noise_std=upload,
                    noise_std_mean=[upload, upload],
                )
            )
    far = {"noise_std": 100.0, "noise_std_mean": [100.0, 100.0]}
    noisy.append(group("gaussian", 0.1, **far))
    return result("noise_response_cifar10_small", [group("none", 1.0), *noisy])


def evidence(*measured: dict[str, Any]) -> Evidence:
    return Evidence({m["preset"]: m for m in measured}, published())


def test_consistent_cells_are_told_from_cells_that_are_not() -> None:
    for shift, word in ((1.0, "is consistent"), (0.01, "is not consistent")):
        text = tables.BLOCKS["question_cifar10"](evidence(known_curve(shift)))
        rows = [
            line
            for line in text.splitlines()
            if line.startswith("| FedSVA, Table 1 | FedSVA ")
        ]
        assert len(rows) == 4
        assert all(row.endswith(f"| {word} |") for row in rows), rows


@pytest.mark.hole
@pytest.mark.parametrize("name", ["cifar10", "leaf"])
def test_g5_printed_and_reconstructed_formulas_are_counted_apart(name: str) -> None:
    """13 of the 40 cells have a formula that a paper prints: NbAFL's and FedSVA's."""
    known = {"cifar10": evidence(known_curve(1.0)), "leaf": load(KEPT)}
    text = tables.BLOCKS[f"question_{name}"](known[name])
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith(("| FedSVA, Table 1 ", "| FedSDP, Table I "))
    ]
    printed = [cell for cell in cells if cell[2] == "printed"]
    assert {cell[1] for cell in printed} == {"NbAFL", "FedSVA"}
    assert (len(printed), len(cells)) == (13, 40)
    assert "| consistent cells with a printed formula |" in text
    assert re.search(r"\| \d+ of 13 \| \d+ of 27 \|", text) and "of 40 |" not in text


def test_figures_are_drawn(tmp_path: Path) -> None:
    noisy = [
        group(name, 0.5, epsilon=e) for name in ("nbafl", "fedsva") for e in (0.2, 0.5)
    ]
    ratios = [group("fedsdp", 0.5, epsilon=0.5, contribution_ratio_mean=[0.2, 0.3])]
    drawn = write_figures(
        evidence(
            known_curve(0.1),
            result("fedsva_table1_cifar10", noisy),
            result("fedsdp_table1_cifar10", ratios),
        ),
        tmp_path,
    )
    assert {path.name for path in drawn} == {
        "noise_response.svg",
        "noise_by_round.svg",
        "contribution.svg",
    }
    assert all("<svg" in path.read_text() for path in drawn)
    assert write_figures(evidence(), tmp_path / "none") == []


def test_a_finished_sweep_becomes_one_file_that_reads_back(
    sweep_dir: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    change(sweep_dir / "config.json", device_kind="cpu", versions={"jax": "0.10.2"})
    calls = read_rows(sweep_dir / "timing.jsonl")
    write_rows(sweep_dir / "timing.jsonl", [c | {"seconds": 4.0} for c in calls])
    kept = results.collect(sweep_dir, name="a_small", command="the command")
    results.write(tmp_path / "a_small.json", kept)
    assert results.load(tmp_path) == {"a_small": kept}
    assert kept["device_kind"] == "cpu" and kept["versions"] == {"jax": "0.10.2"}
    assert kept["settings"]["dataset"] == "digits"
    assert results.seconds(kept) == 4.0 * len(calls)
    one = results.group_of(kept, "fedsva", 0.1)
    assert one is not None and one["seeds"] == [0, 1]
    rows = [
        row
        for row in read_rows(sweep_dir / "results.jsonl")
        if (row["mechanism"], row["epsilon"]) == ("fedsva", 0.1)
    ]
    for t, std in enumerate(one["noise_std_mean"], start=1):
        stds = [row["noise_std_mean"] for row in rows if row["round"] == t]
        assert std == pytest.approx(sum(stds) / 2)
    quotients = [row["aggregate_noise_l2"] / row["noise_l2"] for row in rows]
    mean_square = sum(std**2 for std in one["noise_std_mean"]) / 4
    averaging = sum(quotients) / len(quotients)
    assert results.noise_std(one) == pytest.approx(mean_square**0.5 * averaging)
    assert one["epsilon_spent"]["basic"][-1] == max(
        row["epsilon_spent"]["basic"] for row in rows if row["round"] == 4
    )
    assert results.group_of(kept, "fedsva", 0.7) is None


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text('{"groups": []}')
    with pytest.raises(ValueError, match=r"odd\.json is not the result"):
        results.load(tmp_path)
