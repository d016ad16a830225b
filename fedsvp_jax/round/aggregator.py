"""How a cohort's uploads become one update: as floats, or as residues on a grid."""

import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, NoiseInfo, Params
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.grid import average, residues
from fedsvp_jax.round.state import Aggregator, Upload


def _as_it_is(mechanism: Mechanism, upload: Upload, info: NoiseInfo) -> Upload:
    del mechanism, info
    return upload


def _weighted_sum(
    mechanism: Mechanism, total: Upload, uploads: None, infos: NoiseInfo, valid: Array
) -> Upload:
    del mechanism, uploads, infos, valid
    return total


def _residues(mechanism: Mechanism, tree: Params, info: NoiseInfo) -> Params:
    assert mechanism.grid is not None
    return residues(tree, grid=mechanism.grid, std=info.noise_std)


def _average(
    mechanism: Mechanism, total: Params, infos: NoiseInfo, valid: Array
) -> Params:
    assert mechanism.grid is not None
    std = jnp.max(jnp.where(valid, infos.noise_std, 0.0))
    return average(total, grid=mechanism.grid, std=std, count=jnp.sum(valid))


# sum of p_i x_i (FedAvg, arXiv 1602.05629).
WEIGHTED_SUM = Aggregator(_as_it_is, _weighted_sum)
# The noised part becomes whole steps of one grid, which are added modulo 2^b, as
# secure aggregation adds.
SUM_OF_UPDATES_ON_GRID = Aggregator(
    lambda mechanism, upload, info: upload._replace(
        update=_residues(mechanism, upload.update, info)
    ),
    lambda mechanism, total, uploads, infos, valid: total._replace(
        update=_average(mechanism, total.update, infos, valid)
    ),
)
SUM_OF_ANSWERS_ON_GRID = Aggregator(
    lambda mechanism, upload, info: upload._replace(
        answer=_residues(mechanism, upload.answer, info)
    ),
    lambda mechanism, total, uploads, infos, valid: total._replace(
        answer=_average(mechanism, total.answer, infos, valid)
    ),
)
