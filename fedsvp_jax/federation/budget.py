"""--solve=noise: finds the noise with which a run spends exactly its budget.

`--total_epsilon` alone keeps a promise by asking clients less often. With
`--solve=noise` every client may upload in every round, and the noise is the least that
keeps the promise. Opacus has the same direction (`make_private_with_epsilon`).
"""

import dataclasses
import logging
import math
from typing import Any

import numpy as np

from fedsvp_jax.accounting import Account, OtherCosts, Participation, SpendingPlan
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.settings import part
from fedsvp_jax.influence import privacy
from fedsvp_jax.mechanisms import Mechanism, noise_setting

from . import plan

_LOG = logging.getLogger(__name__)
_LEAST, _MOST = 1e-4, 1e4  # of the setting that is solved for
_NEAR = 0.999  # the part of total_epsilon that a solution without a limit spends
_FINE = 1e-9  # of its logarithm: finer than float32
_FAR = 50.0  # stands for an infinite logarithm


def account_of(
    config: ResolvedConfig,
    mechanism: Mechanism,
    bought: tuple[int, float] = (0, 0.0),
    **fields: Any,
) -> Account:
    """The account of a run before its first round, with what its filter will cost.

    Args:
      config: of the run.
      mechanism: likewise.
      bought: `FederatedData.bought`.
      **fields: those of `Participation` that follow from the data.
    """
    cost = OtherCosts()
    if config.influence_filter != "none":
        cost = privacy.filter_cost(
            config, num_participants=config.num_clients, delta=config.target_delta
        )
    cost = cost._replace(bounds=bought[0], epsilon_per_bound=bought[1])
    participation = part(Participation, config, other_costs=cost, **fields)
    return Account.of(mechanism, participation, config)


def solve_noise(
    config: ResolvedConfig, bought: tuple[int, float] = (0, 0.0), **sizes: Any
) -> ResolvedConfig:
    """The config with the least noise that keeps `total_epsilon` over all its rounds.

    Solved for is ε per upload, or the setting that scales the noise where ε does not
    (`mechanisms.noise_setting`): dp_fedavg's noise_multiplier.
    The promise is then spent by a client that uploads whenever it may, to 1e-6 from
    below; a client that is drawn less often spends less.

    Raises:
      ValueError: no total_epsilon, or no noise keeps it, because of the influence
        filter's events or bought bounds, alone or with the uploads.
    """
    total = config.total_epsilon
    if total is None:
        raise ValueError("solve=noise needs total_epsilon, the budget of the run")
    name, more_is_less_noise = noise_setting(config.mechanism)

    def with_value(value: float) -> ResolvedConfig:
        changes: dict[str, Any] = {name: float(np.float32(value))}  # as a run has it
        return dataclasses.replace(config, **changes)

    refused: list[str] = []

    def planned(value: float) -> SpendingPlan:
        config = with_value(value)
        _, mechanism = plan.make_configured_mechanism(config, **sizes)
        return SpendingPlan(account_of(config, mechanism, bought))

    def spends(value: float) -> float:
        try:
            uploads = planned(value)
        except ValueError as error:  # the calibration has no proof for so large an ε
            refused.append(str(error))
            return math.inf
        return uploads.promised(uploads.always)

    quiet, loud = (_LEAST, _MOST) if more_is_less_noise else (_MOST, _LEAST)
    lowest = spends(quiet)
    if lowest > total:
        _ = planned(quiet).allowance  # raises where not even one upload is promised
        raise ValueError(
            f"total_epsilon = {total} over {config.num_rounds} rounds cannot be kept, "
            f"counted by {config.total_accounting}: no {name} of mechanism "
            f"{config.mechanism} from {min(quiet, loud):g} to {max(quiet, loud):g} "
            f"adds enough noise at delta = {config.delta:g} of one upload (1 / "
            "batch_size unless it is stated); raise it, or state a lower delta"
        )
    highest = spends(loud)
    if highest == lowest:
        raise ValueError(
            f"solve=noise: {name} does not change the noise of mechanism "
            f"{config.mechanism}; lower private_from, or register its noise_setting"
        )
    if highest <= total:
        return with_value(loud)
    feasible = [quiet]  # values that keep the promise

    def excess(place: float) -> float:
        value = math.exp(place)
        spent = spends(value)
        if spent <= total:
            feasible.append(value)
        if not 0 < spent < math.inf:
            return math.copysign(_FAR, spent - total)
        return math.log(spent / total)

    # Alefeld, Potra and Shi's bracketing (1995) on logarithms, in which ε is nearly a
    # line: about ten evaluations.
    from scipy import optimize

    ends = sorted(map(math.log, (quiet, loud)))
    optimize.toms748(excess, *ends, xtol=_FINE, rtol=_FINE)
    solution = min(feasible, key=lambda value: abs(math.log(value / loud)))
    if refused and spends(solution) < _NEAR * total:
        _LOG.warning(
            f"solve=noise stops at {name} = {solution:.4g}, which spends less than "
            f"total_epsilon = {total:g}, since beyond it {refused[-1]}"
        )
    return with_value(solution)
