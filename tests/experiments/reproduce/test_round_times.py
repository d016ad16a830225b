"""Times of FedSVA's Table 2: medians of rounds, without the one that compiles."""

import types
from pathlib import Path
from typing import Any

import pytest

from experiments.reproduce import round_times


def test_rounds_are_timed_in_turn_and_without_the_one_that_compiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A round takes N seconds on two cores; the first one 100 more."""
    now, turns = [0.0], []

    def train(config: Any, folder: str, *, dataset: Any, on_round: Any) -> None:
        assert Path(folder).is_dir() and dataset == "data"
        turns.append(config.num_attributes if config.mechanism == "fedsva" else 0)
        for number in range(config.num_rounds):
            now[0] += config.num_attributes + (100 if number == 0 else 0)
            on_round(number + 1, {})

    clock = types.SimpleNamespace(
        perf_counter=lambda: now[0], process_time=lambda: 2 * now[0]
    )
    monkeypatch.setattr(round_times, "time", clock)
    monkeypatch.setattr("fedsvp_jax.run.one_run.train", train)
    monkeypatch.setattr("fedsvp_jax.federation.loading.load_data", lambda _: "data")
    times = round_times.measure("d")
    assert turns == [0, 2, 3, 4, 5] * round_times.REPEATS
    for number in (2, 3, 4, 5):
        row = round_times.row_of(times, "fedsva", number)
        assert (row["seconds"], row["cpu_seconds"]) == (number, 2 * number)
        assert row["rounds"] == round_times.REPEATS * round_times.ROUNDS
    assert times["load"] >= 0 and times["device_kind"] == "cpu"
    round_times.write(tmp_path, times)
    assert round_times.load(tmp_path) == times
    assert round_times.load(tmp_path / "none") is None
    assert round_times.row_of(None, "fedsva", 2) is None
