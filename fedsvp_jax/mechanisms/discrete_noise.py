"""Discrete Gaussian noise in a run: `--noise_sampler=discrete`.

The upload is clipped as ever, rounded to a grid without growing past its clip, noised
in whole numbers and sent modulo 2^b (`grid`). z is what it is with Gaussian noise, and
so is what follows from it: the noise hides no less (docs/appendix, P17).

Noise of several clients is one sum where their residues are added up: with secure
aggregation and in dp_fedavg. Elsewhere the server multiplies each upload with its
weight in float32. From (601 a + 599 b)/1200 whoever sees the models reads both a and b,
so every adversary's ε is the server's (`Account.counted`).
"""

from .base import Mechanism, assuming
from .config import MechanismConfig


def discrete(mechanism: Mechanism, config: MechanismConfig, name: str) -> Mechanism:
    """The mechanism, whose noise is drawn on its grid.

    Raises:
      ValueError: the claim with Gaussian noise is not proved, or there is other noise
        than that on the clipped uploads.
    """
    if (
        mechanism.grid is None
        or not mechanism.basis.proved
        or mechanism.needs_contribution
        or mechanism.server is not None
        or mechanism.init(1).clients
    ):
        raise ValueError(
            f"noise_sampler must be gaussian for mechanism {name} with clipping="
            f"{config.clipping}: discrete noise is proved for clipped uploads "
            "(update_clip, attribute_records, per_example, dp_fedavg with a fixed clip "
            "and one band), whose noise nothing but public settings decides"
        )
    grid_uploads = "uploads are whole numbers"
    if not mechanism.basis.central and config.noise_trust == "nobody":
        grid_uploads = "other clients' noise is not counted; " + grid_uploads
    return assuming(
        mechanism,
        f"{grid_uploads} of a grid modulo 2^{config.noise_bits}, with exact discrete "
        "Gaussian noise",
        discrete=True,
    )
