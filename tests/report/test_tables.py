"""The papers' table, against numbers worked out by hand."""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from small_folders import write_rows
from small_runs import read_rows

from experiments import printed
from fedsvp_jax import mechanisms, report
from fedsvp_jax.accounting.participation import SEED
from fedsvp_jax.report import headline, read, tables, text_table


def cell(
    mechanism: str, epsilon: float | None, seed: int, accuracies: list[float | None]
) -> list[dict[str, Any]]:
    return [
        {
            "mechanism": mechanism,
            "epsilon": epsilon,
            "seed": seed,
            "round": t,
            "test_accuracy": accuracy,
            "noise_l2": 2.0 * (seed + 1),
            "epsilon_spent": {"basic": 0.5 * t + seed},
        }
        for t, accuracy in enumerate(accuracies, start=1)
    ]


def test_validation_picks_the_best_round() -> None:
    rows = cell("fedsva", 0.5, 0, [0.9, None, 0.6, 0.5])
    for row, accuracy in zip(rows, [0.1, None, 0.8, 0.7], strict=True):
        row["validation_accuracy"] = accuracy
    (row,) = tables.summarize(rows)
    assert row.scores["best"][0] == 0.6 and row.best_by == "validation_accuracy"
    assert row.scores["best"][1] is None  # one seed has no spread


def test_the_std_is_the_sample_std_over_seeds() -> None:
    results = [r for n in range(3) for r in cell("fedsva", 0.5, n, [0.5 + n / 10])]
    (row,) = tables.summarize(results)
    assert row.num_seeds == 3
    assert row.scores["best"] == pytest.approx((0.6, 0.1))
    assert row.noise_l2 == pytest.approx(4.0)
    assert row.epsilon_spent == {"basic": 2.5}  # the largest over seeds


def test_rows_are_in_order_whatever_the_lines_and_a_round_counts_once() -> None:
    """FedAvg at several ε is one row of its seeds; the gap to it is relative."""
    results = [
        *cell("fedsva", 0.5, 1, [0.5]),
        *cell("none", 0.1, 0, [0.8]),
        *cell("none", 0.5, 0, [0.8]),
        *cell("none", math.inf, 1, [0.8]),
        *cell("fedsva", 0.1, 0, [0.6]),
        *cell("fedsva", 0.5, 0, [0.4]),
    ]
    rows = tables.summarize(results)
    assert rows == tables.summarize(results[::-1]) == tables.summarize(results * 2)
    assert [(row.mechanism, row.epsilon, row.num_seeds) for row in rows] == [
        ("none", None, 2),
        ("fedsva", 0.1, 1),
        ("fedsva", 0.5, 2),
    ]
    with pytest.raises(ValueError, match="at least one row"):
        tables.summarize([])


def test_an_infinite_cost_is_no_number_and_noise_of_local_steps_has_a_column() -> None:
    (row,) = cell("fedsva", 0.5, 0, [0.9])
    row |= {"noise_l2": 0.0, "step_noise_std_mean": 0.4}
    (summary,) = tables.summarize([row | {"epsilon_spent": {"basic": math.inf}}])
    assert summary.epsilon_spent == {"basic": None}
    assert (summary.noise_l2, summary.step_noise_std) == (0.0, 0.4)


def test_written_tables_hold_the_summary(sweep_dir: Path) -> None:
    markdown = sweep_dir / "table.md"
    rows = tables.summarize(read_rows(sweep_dir / "results.jsonl"))
    printed.sweep_tables(sweep_dir)
    with (sweep_dir / "table.csv").open(newline="") as lines:
        read_back = list(csv.DictReader(lines))
    means = [line["best_mean"] for line in read_back]
    assert means == [f"{row.scores['best'][0]:.7g}" for row in rows]  # float32's digits
    lines = markdown.read_text().splitlines()
    assert [line[0] for line in lines[: len(rows) + 2]] == ["|"] * (len(rows) + 2)
    assert "Naming the most frequent class is right of" in "".join(lines[-3:])
    assert "| FedSVA | 0.5 |" in markdown.read_text()
    assert "means over 2 seeds; in brackets the 95 %" in markdown.read_text()
    assert "| ε per upload at its own δ |" in markdown.read_text()
    for line, row in zip(read_back, rows, strict=True):
        low, high = row.interval() or (0, 0)
        if low > 0 and high < 1:
            assert float(line["last5_half_width"]) == pytest.approx((high - low) / 2)
        assert line["assumption"] == (SEED if row.status else "")


def test_a_paper_gets_a_tabular_with_status_beside_epsilon(sweep_dir: Path) -> None:
    printed.sweep_tables(sweep_dir)
    text = (sweep_dir / "table.tex").read_text()
    table, notes = text.split("\\end{tabular}")
    head, *rows = (line for line in table.splitlines() if line.endswith(r"\\"))
    names = head.removesuffix(r" \\").split(" & ")
    assert names[2] == r"accuracy \% (mean of the last 5 evaluations)"
    spent = names.index(r"$\varepsilon$ spent at $\delta$ = 1e-05")
    assert names[spent + 1] == "status" and len(rows) == 5
    assert rows[1].split(" & ")[0] in ("FedSDP", "FedSVA")
    assert rows[1].removesuffix(r" \\").split(" & ")[spent + 1] == "nominal"
    assert "against: server" in notes and not re.search("[εδ–]|[^\\\\]%", text)


@pytest.mark.hole
def test_an_unfinished_sweep_says_so_in_terminal_tables_and_page(
    sweep_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed sweep was printed like a result, and its page said "4 rounds"."""
    assert tables.how_far(read.read_sweep(sweep_dir)) is None
    rows = read_rows(sweep_dir / "results.jsonl")
    last = rows[-1]["mechanism"]
    second = next(r["mechanism"] for r in reversed(rows) if r["mechanism"] != last)
    kept = [r for r in rows if r["mechanism"] != last]
    kept = [r for r in kept if r["mechanism"] != second or r["round"] < 3]
    write_rows(sweep_dir / "results.jsonl", kept)
    file = sweep_dir / "cells.json"
    cells = [c for c in json.loads(file.read_text()) if c["mechanism"] == "none"]
    file.write_text(json.dumps(cells))
    printed.sweep_tables(sweep_dir)
    texts = [capsys.readouterr().out, (sweep_dir / "table.md").read_text()]
    texts.append(report.write_sweep_report(sweep_dir).read_text())
    label = mechanisms.about(last).label
    for text in texts:
        words = " ".join(text.split())
        assert (
            "This sweep has not finished: round 2 of 4; 4 cells not started:" in words
        )
        assert f"{label}, ε = 0.1, seed 0; {label}, ε = 0.1, seed 1" in words
    assert "<p>unfinished: 4 rounds" in texts[-1]
    first = sweep_dir / "results.jsonl"
    write_rows(first, [r for r in kept if r["mechanism"] == "none"])
    file.unlink()  # killed within the first mechanism
    printed.sweep_tables(sweep_dir)
    assert "round 4 of 4; 8 cells not started" in capsys.readouterr().out


def test_delta_is_in_the_head_where_it_is_that_of_all_uploads() -> None:
    """R moves δ: FedSDP's uploads had 0.161 to 0.206 below a head that said 0.1."""
    at, of_two = {"delta": 0.1}, ({"delta": 0.1}, {"delta": 1e-5})
    rows = tables.summarize(cell("gaussian", 0.5, 0, [0.9]))
    assert headline.cells("shown", rows, [at])[0]["ε per upload at δ = 0.1"] == "0.5"
    assert headline.cells("shown", rows, of_two)[0]["ε per upload"] == "0.5"
    rows += tables.summarize(cell("fedsdp", 0.5, 0, [0.9]))
    assert headline.cells("shown", rows, [at])[0]["ε per upload at its own δ"] == "0.5"


@pytest.mark.hole
def test_a_model_that_names_one_class_is_no_better_than_guessing() -> None:
    """A user read "loss vs FedAvg 97.3" of models at chance, and nothing of chance."""
    runs = [("none", None, 0.9), ("fedsva", 0.1, 0.3), ("fedsva", 0.5, 0.31)]
    rows = [row for name, epsilon, a in runs for row in cell(name, epsilon, 0, 7 * [a])]
    text = headline.filled("guessing", 0.3, tables.summarize(rows))
    assert text.endswith("is right of 30.0 %; no better: FedSVA, ε = 0.1.")


def test_the_private_attribute_has_columns_where_it_was_measured() -> None:
    rows = [
        row | {"private_accuracy": 0.5 + seed / 10, "worst_tenth_accuracy": None}
        for seed in (0, 2)
        for row in cell("none", None, seed, [0.9] * 7)
    ]
    (summary,) = tables.summarize(rows)
    assert summary.scores["private"] == pytest.approx((0.6, 0.02**0.5))
    assert summary.scores["worst_tenth"] == (None, None)
    assert tables.columns([summary])["private_mean"] == [pytest.approx(0.6)]


def test_the_auc_of_cells_is_a_column_and_intervals_end_at_100_percent() -> None:
    rows = [row for seed in (0, 1) for row in cell("none", None, seed, [0.9])]
    cells = [
        {"mechanism": "none", "epsilon": None, "seed": seed, "test_scores": {"auc": a}}
        for seed, a in ((0, 0.7), (1, 0.8))
    ]
    (shown,) = headline.cells("shown", tables.summarize(rows, cells), [])
    assert shown["AUC"] == "0.75 (0.115 to 1.000)"
    wide = [
        row for seed, a in ((0, 0.2), (1, 0.9)) for row in cell("none", None, seed, [a])
    ]
    assert tables.summarize(wide)[0].interval() == (0.0, 1.0)


def test_the_table_that_is_read_has_six_columns_and_fits_100_characters() -> None:
    """δ stands in the head where all rows share it; what all rows say, below."""
    claim = {
        "target_delta": 1e-5,
        "adversary": "server",
        "relation": "replace a record",
    }
    spent = {"basic": 2.0, "rdp": 1.5, "pld": 1.25}
    status = {"basic": "nominal", "rdp": "nominal", "pld": "proved"}
    costs = claim | {"epsilon_spent": spent, "status": status, "delta_spent": 0.5}
    rows = [
        row | costs
        for number in range(3)
        for row in cell("time_varying", 0.1 * number, 0, [0.9])
    ]
    shown = headline.cells("shown", tables.summarize(rows), [])
    assert shown[0]["ε spent at δ = 1e-05"] == "1.25" and len(shown) == 3
    table, notes = text_table.render(shown).split("\n\n")
    assert " ".join(notes.split()) == (
        "status: proved, if the seed stays secret; "
        "against: server (neighbours: replace a record)."
    )
    lines = f"{table}\n{notes}".splitlines()
    assert max(map(len, lines)) <= 100
    assert len(shown[0]) == 6  # of which one is said below; no loss without FedAvg


def test_epsilon_is_the_largest_and_the_status_the_worst_of_the_seeds() -> None:
    rows = [
        row | {"epsilon_spent": {"rdp": epsilon}, "status": {"rdp": status}}
        for seed, (epsilon, status) in enumerate([(2.0, "nominal"), (3.0, "proved")])
        for row in cell("fedsva", 0.5, seed, [0.9])
    ]
    (row,) = tables.summarize(rows)
    assert (row.epsilon_spent, row.status) == ({"rdp": 3.0}, {"rdp": "nominal"})
    rows[0]["epsilon_spent"] = {"rdp": math.inf}
    assert tables.summarize(rows)[0].epsilon_spent == {"rdp": None}
