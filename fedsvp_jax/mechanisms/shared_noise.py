"""Noise that a cohort shares: `--noise_trust=secure_aggregation`.

With secure aggregation nobody sees an upload, only the sum of a cohort's. Each of its K
clients then adds its share, of std z·Δ/√(K − h), so that the sum carries at least z·Δ
even to h of them who pool what they know of their own shares. With equal weights 1/K
and one Δ for all clients, the average is a Gaussian of z to those h, and of
z·√(K/(K − h)) to an observer (docs/appendix, P14).

A client that drops out after it was drawn takes its share with it. h counts colluders
and drop-outs together: of a sum without d clients, c colluders see a Gaussian of
z·√((K − d − c)/(K − h)), at least z where d + c ≤ h. The ledger counts the clients that
were in the sum, fewer ones with less noise.
"""

import dataclasses
from typing import Any

from . import base, calibration, clipping, subsampling
from .config import MechanismConfig


def least_opened(cohort_size: int, colluders: int) -> int:
    """max(K − h, h) + 1: of fewer clients no sum is opened (docs/appendix, P14).

    With K − h those that are away and one curious client are together h at most. Any
    h + 1 shares of keys open a single upload, and h curious clients have one each.
    """
    return max(cohort_size - colluders, colluders) + 1


def shared(
    mechanism: base.Mechanism, config: MechanismConfig, name: str
) -> base.Mechanism:
    """The mechanism, with a claim about the cohort's average in place of an upload's.

    Its sensitivity gives the share's std already (`clipping.make_clipping`); here
    z is counted as the part of one upload, and the claim is the average's, against h
    colluders, by zCDP: of a cohort that lost some of its noise it can be told anew.

    Raises:
      ValueError: the noise follows the client, goes into more local steps than one, or
        is shared by the cohort already.
    """
    root = clipping.root_sharers(config)
    # After a second step an upload is no step on a sum of noised sums: a client's own
    # noise decides where that step starts.
    one_step = subsampling.is_poisson(config) and config.local_steps == 1
    state = mechanism.init(1)
    if (
        mechanism.basis.central
        or mechanism.basis.relation == "none"
        or (mechanism.step_noise_std is not None and not one_step)
        or mechanism.needs_contribution
        or state.clients
        or state.shared
    ):
        raise ValueError(
            "noise_trust must be nobody for mechanism "
            f"{name} with clipping={config.clipping} and contribution_release="
            f"{config.contribution_release}: secure aggregation shares a noise that is "
            "added to the uploads and is the same for all clients (with "
            "clipping=per_example: batches=poisson and local_steps=1)"
        )

    def update(*upload: Any, **request: Any) -> base.Noised:
        updates, state, info = mechanism.update(*upload, **request)
        counted = dataclasses.replace(
            info,
            noise_multiplier=info.noise_multiplier / root,
            sensitivity=info.sensitivity * root,
            epsilon=calibration.concentrated_epsilon(info.noise_multiplier, info.delta),
        )
        return updates, state, counted

    return base.assuming(
        mechanism,
        "secure aggregation shows the sum of a cohort alone; equal weights; every one "
        "of its clients adds its share of the noise, z·Δ/√("
        f"{config.cohort_size} - {config.colluders}); clients that drop out and those "
        f"that collude are together at most {config.colluders}",
        view="colluders",
        any_epsilon=True,
    )._replace(
        update=update,
        uniform_weights=True,
        most_epsilon=calibration.concentrated_epsilon(
            mechanism.least_multiplier, mechanism.most_delta
        ),
    )
