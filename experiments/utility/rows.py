"""The rows of docs/results/utility.md: one run each, kept in a file of its setup."""

import pathlib
from collections.abc import Sequence
from typing import Any

from fedsvp_jax import run

from .. import kept_rows, provenance
from .routes import Route


def row_of(route: Route, seed: int, summary: dict[str, Any]) -> dict[str, Any]:
    """A row of the results: the mean of the last five evaluations, and the claim."""
    promised = [
        one for one in summary["guarantees"] if one["method"].startswith("promise")
    ]
    claim = promised[0] if promised else {}
    of_copies = {
        name: one[name]
        for one in summary["guarantees"]
        for name in ("copies", "epsilon")
        if one["copies"] > 1
        and (one["method"], one["adversary"]) == ("pld", claim.get("adversary"))
    }
    return {
        "route": route.name,
        "total_epsilon": route.settings.get("total_epsilon"),
        "seed": seed,
        "accuracy": summary["final5_accuracy"],
        "private_accuracy": summary["final5_private_accuracy"],
        "worst_tenth_accuracy": summary["final5_worst_tenth_accuracy"],
        "spent_pld": summary["epsilon_spent"]["pld"] if claim else None,
        "delta": summary["target_delta"],
        "copies": of_copies.get("copies", 1) if claim else None,
        "spent_of_copies": of_copies.get("epsilon") if claim else None,
        "adversary": claim.get("adversary"),
        "relation": claim.get("relation"),
        "status": claim.get("status"),
        "rounds": summary["rounds"],
    }


def compute(
    routes: Sequence[Route],
    file: pathlib.Path,
    output_dir: pathlib.Path,
    *,
    data_dir: str | None,
    most_seeds: int,
) -> None:
    """Adds the rows that are missing, seed by seed."""
    rows = kept_rows.read(file)
    done = {(row["route"], row["total_epsilon"], row["seed"]) for row in rows}
    for seed in range(most_seeds):
        for number, route in enumerate(routes):
            total = route.settings.get("total_epsilon")
            if seed >= route.seeds or (route.name, total, seed) in done:
                continue
            folder = output_dir / f"{route.setup}_{number}_{seed}"
            config = route.config(seed, data_dir)
            row = row_of(route, seed, run.train(config, folder, resume=True))
            kept_rows.add(file, row | {"provenance": provenance.stamp_of_run(config)})
            print(f"{route.name}, seed {seed}: {row['accuracy']:.4f}", flush=True)
