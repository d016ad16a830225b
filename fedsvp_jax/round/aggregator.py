"""How a cohort's uploads become one update: as floats, or as residues on a grid."""

from typing import Literal

import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, NoiseInfo
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.grid import average, residues
from fedsvp_jax.round.state import Aggregator, Upload


def sum_on_grid(part: Literal["update", "answer"]) -> Aggregator:
    """A sum of the part that is noised, on the mechanism's grid.

    The part becomes whole steps of one grid, which are added modulo 2^b, as secure
    aggregation adds.
    """

    def encode(mechanism: Mechanism, upload: Upload, info: NoiseInfo) -> Upload:
        assert mechanism.grid is not None
        tree = getattr(upload, part)
        steps = residues(tree, grid=mechanism.grid, std=info.noise_std)
        return upload._replace(**{part: steps})

    def decode(
        mechanism: Mechanism,
        total: Upload,
        uploads: None,
        infos: NoiseInfo,
        valid: Array,
    ) -> Upload:
        del uploads
        assert mechanism.grid is not None
        std = jnp.max(jnp.where(valid, infos.noise_std, 0.0))
        tree, count = getattr(total, part), jnp.sum(valid)
        mean = average(tree, grid=mechanism.grid, std=std, count=count)
        return total._replace(**{part: mean})

    return Aggregator(encode, decode)


# sum of p_i x_i (FedAvg, arXiv 1602.05629).
WEIGHTED_SUM = Aggregator(
    lambda mechanism, upload, info: upload,
    lambda mechanism, total, uploads, infos, valid: total,
)
SUM_OF_UPDATES_ON_GRID = sum_on_grid("update")
SUM_OF_ANSWERS_ON_GRID = sum_on_grid("answer")
