"""Folders of made-up runs and sweeps: test fixtures, no measurement of anything.

The numbers obey the published formulas (R, T, σ, δ′), so that the page's words can
be checked against them; the accuracies are drawn from smooth curves.
"""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CLIP, EPSILON, DELTA, FLOOR = 20.0, 0.2, 0.02, 1e-3


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def client_row(round_num: int, client: int, utilities: list[float]) -> dict[str, Any]:
    """N = 2, attribute 0 private: the published chain of one upload."""
    empty, first, second, both = utilities
    psi = [
        ((first - empty) + (both - second)) / 2,
        ((second - empty) + (both - first)) / 2,
    ]
    total = sum(psi)
    ratio = min(1.0, max(0.0, psi[0] / total)) if abs(total) >= 1e-6 else 1.0
    examples = 1000 + 100 * (client % 21)
    tolerance = ratio - 2 * math.log(DELTA)
    std = 2 * CLIP * math.sqrt(max(tolerance, FLOOR)) / (EPSILON * examples)
    return {
        "round": round_num,
        "client": client,
        "shapley_values": psi,
        "utilities": utilities,
        "contribution_ratio": ratio,
        "released_ratio": ratio,
        "risk_tolerance": tolerance,
        "noise_std": std,
        "sensitivity": 2 * CLIP / examples,
        "noise_l2": std * math.sqrt(10_000),
        "epsilon": EPSILON,
        "delta": 1.25 * math.exp(-ratio / 2) * DELTA,
        "num_examples": examples,
        "weight": 0.2,
    }


def make_run(
    folder: Path, *, rounds: int = 12, clients: int = 20, cohort: int = 5, **config: Any
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    rows, metrics = [], []
    for t in range(1, rounds + 1):
        members = sorted(rng.choice(clients, size=cohort, replace=False).tolist())
        share = 0.25 + 0.35 * math.exp(-3 * t / rounds)
        level = 0.2 + 0.7 * (1 - math.exp(-4 * t / rounds))
        own = []
        for client in members:
            private = share * level * float(rng.uniform(0.7, 1.3))
            own.append(client_row(t, client, [0.0, private, 0.8 * level, 1.05 * level]))
        rows += own
        mean = float(np.mean([row["contribution_ratio"] for row in own]))
        evaluated = t % 2 == 0 or t == rounds
        metrics.append(
            {
                "round": t,
                "test_accuracy": level + float(rng.normal(0, 0.01))
                if evaluated
                else None,
                "test_loss": 2.3 * (1 - level) + 0.1 if evaluated else None,
                "noise_std_mean": float(np.mean([row["noise_std"] for row in own])),
                "noise_l2": float(np.mean([row["noise_l2"] for row in own])),
                "aggregate_noise_l2": float(np.mean([r["noise_l2"] for r in own])) / 3,
                "contribution_ratio_mean": mean,
                "epsilon_spent": {"basic": EPSILON * t, "rdp": 0.3 * math.sqrt(t)},
                "delta_spent": DELTA * t,
                "num_clipped_ratios": 0,
                "num_degenerate_ratios": 0,
            }
        )
    spent = dict(metrics[-1]["epsilon_spent"])  # type: ignore[call-overload]
    (folder / "config.json").write_text(
        json.dumps(
            {
                "dataset": "digits",
                "mechanism": "fedsva",
                "model": "mlp",
                "epsilon": EPSILON,
                "delta": DELTA,
                "l2_norm_clip": CLIP,
                "noise_floor": FLOOR,
                "sensitivity": "paper",
                "num_attributes": 2,
                "private_attribute": 5,  # a class, not an attribute's index
                "contribution_release": "none",
                "num_clients": clients,
                "cohort_size": cohort,
                "num_rounds": rounds,
                "seed": 0,
                "versions": {"jax": "0.10.2", "python": "3.11.2"},
                "command": "python -m experiments.train --dataset=digits --seed=0",
                **config,
            }
        )
    )
    write_lines(folder / "metrics.jsonl", metrics)
    write_lines(folder / "clients.jsonl", rows)
    guarantee = {
        "adversary": "server",
        "relation": "replace one example",
        "epsilon": spent["basic"],
        "delta": DELTA * rounds,
        "proved": False,
        "assumptions": ["the sensitivity is 2C/|D|"],
    }
    observer = {"adversary": "outside observer of the final model", "epsilon": 0.5}
    (folder / "summary.json").write_text(
        json.dumps(
            {
                "best_accuracy": 0.91,
                "final5_accuracy": 0.9,
                "final5_std": 0.01,
                "params_sha256": "ab" * 32,
                "num_parameters": 10_000,
                "attributes": ["class 5", "other classes"],
                "private_attribute": 0,
                "target_delta": 1e-5,
                "release_epsilon": 0.0,
                "epsilon_spent": {**spent, "pld": 0.9},
                "guarantees": [
                    {**guarantee, "method": "basic"},
                    {**guarantee, "method": "rdp", "epsilon": spent["rdp"]},
                    {**guarantee, **observer, "method": "rdp"},
                    {**guarantee, "method": "pld", "epsilon": 0.9},
                ],
            }
        )
    )
    return folder


def sweep_rows(
    *,
    mechanisms: tuple[str, ...] = ("none", "fedsdp", "fedsva"),
    epsilons: tuple[float, ...] = (0.1, 0.3, 0.5),
    seeds: int = 3,
    rounds: int = 10,
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    rows = []
    for mechanism in mechanisms:
        noiseless = mechanism == "none"
        for epsilon in (None,) if noiseless else epsilons:
            for seed in range(seeds):
                for t in range(1, rounds + 1):
                    top = 0.95 if epsilon is None else 0.95 - 0.05 / epsilon
                    level = 0.1 + (top - 0.1) * (1 - math.exp(-5 * t / rounds))
                    share = 0.2 + 0.3 * math.exp(-3 * t / rounds)
                    shift = 0.97 if mechanism == "fedsdp" else 1.0
                    tail = float(rng.normal(0, 0.01))
                    rows.append(
                        {
                            "mechanism": mechanism,
                            "epsilon": epsilon,
                            "seed": seed,
                            "round": t,
                            "test_accuracy": level * shift + tail,
                            "test_loss": 1 - level,
                            "noise_l2": shift * 2 / epsilon if epsilon else 0.0,
                            "noise_std_mean": 0.02 / epsilon if epsilon else 0.0,
                            "contribution_ratio_mean": None if noiseless else share,
                            "epsilon_spent": {
                                "basic": epsilon * t if epsilon else math.inf,
                                "rdp": epsilon * math.sqrt(t) if epsilon else math.inf,
                            },
                        }
                    )
    return rows


def make_sweep(folder: Path, **shape: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = {"dataset": "digits", "epsilons": [0.1, 0.3, 0.5], "seeds": "0:3"}
    (folder / "config.json").write_text(json.dumps(config))
    write_lines(folder / "results.jsonl", sweep_rows(**shape))
    return folder


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


@pytest.fixture
def sweep_dir(tmp_path: Path) -> Path:
    return make_sweep(tmp_path / "sweep")


@pytest.fixture
def run_maker() -> Callable[..., Path]:
    return make_run


@pytest.fixture
def upload() -> Callable[..., dict[str, Any]]:
    return client_row
