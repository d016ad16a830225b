"""Figure 2: whole federations with corrupted clients, with and without the filter."""

import dataclasses
import pathlib

from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.engine.placement import Placement

from .tasks import Row

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def measure(
    config: ExperimentConfig, data: Dataset, folder: pathlib.Path, *, progress: bool
) -> list[Row]:
    """A row a share and filter; each federation's own folder is kept and resumed."""
    rows = []
    for share in SHARES:
        for name in ("none", "join"):
            own = dataclasses.replace(
                config, corrupted_share=share, influence_filter=name
            )
            summary = run.train(
                own,
                folder / f"corrupted_{share:g}_{name}",
                dataset=data,
                placement=Placement(rounds_per_call=config.num_rounds),
                resume=True,
                progress=progress,
            )
            row = {
                "corrupted_share": share,
                "filter": name,
                "accuracy": summary["final5_accuracy"],
            }
            rows.append({**summary.get("filtration", {}), **row})
    return rows
