"""The sum of a cohort's uploads: of floats, or of residues on a grid."""

import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, NoiseInfo
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.grid import average, residues

from .state import Aggregator, Upload


def _noised_part(upload: Upload) -> str:
    """The field that has noise: the answer to a query where there is one."""
    return "answer" if upload.answer else "update"


def _to_grid(mechanism: Mechanism, upload: Upload, info: NoiseInfo) -> Upload:
    assert mechanism.grid is not None
    part = _noised_part(upload)
    steps = residues(getattr(upload, part), grid=mechanism.grid, std=info.noise_std)
    return upload._replace(**{part: steps})


def _from_grid(
    mechanism: Mechanism, total: Upload, uploads: None, infos: NoiseInfo, valid: Array
) -> Upload:
    assert mechanism.grid is not None
    part = _noised_part(total)
    std = jnp.max(jnp.where(valid, infos.noise_std, 0.0))
    tree, count = getattr(total, part), jnp.sum(valid)
    mean = average(tree, grid=mechanism.grid, std=std, count=count)
    return total._replace(**{part: mean})


# sum of p_i x_i (FedAvg, arXiv 1602.05629).
WEIGHTED_SUM = Aggregator(
    lambda mechanism, upload, info: upload,
    lambda mechanism, total, uploads, infos, valid: total,
)
# The part that has noise becomes whole steps of the mechanism's grid, which are added
# modulo 2^b, as secure aggregation adds.
SUM_ON_GRID = Aggregator(_to_grid, _from_grid)
