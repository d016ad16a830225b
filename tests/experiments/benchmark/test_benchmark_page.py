"""The performance page: its tables are what the measured files say."""

import pathlib
import shutil
from typing import Any

from experiments.benchmark import docs_page, peers
from fedsvp_jax.report import text_table

ROOT = pathlib.Path(__file__).parents[3]


def row(turn: int, work: str, who: str, seconds: float, **more: float) -> dict:
    return {
        "turn": turn,
        "work": work,
        "who": who,
        "seconds_median": seconds,
        "compile_seconds": 1.0,
        "peak_mb": 10.0,
        **more,
    }


ROWS = [
    row(1, "W2", peers.OURS, 0.01),
    row(1, "W2", "pfl", 0.1),
    row(2, "W2", peers.OURS, 0.02),
    row(2, "W2", "pfl", 0.1, others_cores=0.5),
]


def test_ratios_are_those_of_the_same_turn_and_disturbed_rows_say_so() -> None:
    lines = docs_page.peers_table(ROWS).splitlines()[2:]
    assert lines[0].startswith(f"| W2 | {peers.OURS} | 0.015 (0.01 to 0.02) | 1 |")
    assert lines[1].startswith("| W2 | pfl (disturbed) | 0.1 (0.1 to 0.1) | 10.00, 5")


def test_a_row_says_what_was_asked_of_it_and_whether_it_was_met() -> None:
    ours = [
        row(turn, "W1", peers.OURS, 1.0, peak_mb=900.0, compile_seconds=5.0)
        for turn in (1, 2, 3)
    ]
    theirs = [
        row(turn, "W1", "PyTorch loop, lean", seconds)
        for turn, seconds in ((1, 0.9), (2, 1.1), (3, 1.2))
    ]
    mine, torch = docs_page.peers_table(ours + theirs).splitlines()[2:]
    assert "| ≤ 800 MB, compile ≤ 6 s | no, yes |" in mine
    assert "| 0.90, 1.10, 1.20 | ratio ≥ 1.0 | yes |" in torch


def bench_row(mechanism: str, seconds: float, bound: float | None) -> dict[str, Any]:
    return {
        "work": "PE-W2",
        "mechanism": mechanism,
        "num_attributes": 2,
        "seconds_per_round_median": seconds,
        "seconds_per_round_min": seconds,
        "seconds_per_round_max": seconds,
        "arithmetic_bound": bound,
        "gemm_fraction": 0.5,
        "peak_mb": 10.0,
        "compile_seconds": 1.0,
    }


def test_fedsva_stands_over_the_fedavg_of_its_work() -> None:
    rows = [bench_row("none", 2.0, None), bench_row("fedsva", 5.0, 2.0)]
    line = docs_page.bench_table(rows).splitlines()[3]
    assert "| exact |" in line and "| 2.50 | 2.2: missed | 2 |" in line


def test_the_faster_python_is_named() -> None:
    rows = [
        bench_row("none", seconds, None) | {"versions": {"python": name, "jax": "0"}}
        for name, seconds in (("3.11.7", 3.0), ("3.12.1", 2.0))
    ]
    last = docs_page.pythons_table(rows).splitlines()[-1]
    assert last == (
        "PE-W2 is fastest under Python 3.12.1: 1.50 times the speed of 3.11.7."
    )


def test_a_number_format_is_judged_by_the_spread_of_the_seeds() -> None:
    def row(name: str, *accuracies: float) -> dict[str, Any]:
        about = {"dataset": "digits", "model": "mlp", "rounds": 3}
        return {**about, "compute_dtype": name, "accuracies": list(accuracies)}

    wide = row("float32", 0.90, 0.92)
    for narrow, verdict in ((0.92, "yes"), (0.95, "no")):
        rows = [wide, row("bfloat16", narrow, narrow)]
        table = docs_page.formats_table({"jax": "0", "rows": rows})
        assert table.splitlines()[-1].endswith(f"| {verdict} |")
        assert "| 91.00 ± 1.41 |" in table


def test_shares_of_a_profile_are_of_the_whole_round() -> None:
    part = {"layer": "Dense_0", "direction": "forward", "product": True}
    found = {
        "gemm_gflops": 200.0,
        "round_seconds": 2.0,
        "attributed_seconds": 1.0,
        "parts": [{**part, "seconds": 1.0, "gflops": 50.0}],
    }
    last = docs_page.profile_table(found).splitlines()[-1]
    assert last == "| Dense_0 | forward | products | 50.0% | 50 | 0.25 |"


def test_what_is_not_measured_says_so(tmp_path: pathlib.Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    for file in (docs / "results").iterdir():
        if file.suffix in (".json", ".jsonl") or "epsilon_" in file.name:
            file.unlink()
    for page in docs_page.rewrite(docs):
        both = [page, docs / "results" / page.name]
        texts = [path.read_text() for path in both if path.exists()]
        assert any(text_table.MISSING in text for text in texts)
