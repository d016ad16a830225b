"""Figure 2: whole federations with corrupted clients, with and without the filter."""

import dataclasses
import pathlib

from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.engine.placement import Placement

from .tasks import Result

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def measure(
    config: ExperimentConfig, data: Dataset, folder: pathlib.Path, *, progress: bool
) -> list[Result]:
    """Trains a federation per share of corrupted clients, without and with the filter.

    Returns:
      One result per federation: the share, the filter, the `final5_accuracy` of its
      summary, and with the filter how well it rejected.
    """
    results = []
    for share in SHARES:
        for name in ("none", "join"):
            summary = run.train(
                dataclasses.replace(
                    config, corrupted_share=share, influence_filter=name
                ),
                folder / f"corrupted_{share:g}_{name}",
                dataset=data,
                placement=Placement(rounds_per_call=config.num_rounds),
                options=run.Options(resume=True, progress=progress),
            )
            told = {"corrupted_share": share, "filter": name}
            told |= {"accuracy": summary["final5_accuracy"]}
            results.append({**summary.get("filtration", {}), **told})
    return results
