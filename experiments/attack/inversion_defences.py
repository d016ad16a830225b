"""The defences that gradient inversion is tried against."""

import dataclasses
import math
from typing import NamedTuple

from absl import flags

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.mechanisms import MechanismConfig, analytic_multiplier

from .. import flag_values

_SENSITIVITIES = ("paper", "update_clip", "per_example")


class Defence(NamedTuple):
    """A defence between a client's gradient and the server."""

    mechanism: str
    sensitivity: str
    epsilon: float | None = None  # of one upload; None: the settings'

    @property
    def name(self) -> str:
        """The defence in tables and file names."""
        epsilon = "" if self.epsilon is None else f"_{self.epsilon:g}"
        return f"{self.mechanism}_{self.sensitivity}{epsilon}"


def named_defences(values: flags.FlagValues) -> list[Defence]:
    """The defences of --inversion_defences, then those of --inversion_epsilons.

    Raises:
      ValueError: a flag holds something else, or a defence twice.
    """
    defences = []
    for text in values.inversion_defences:
        mechanism, _, sensitivity = text.partition(":")
        if sensitivity not in _SENSITIVITIES:
            raise ValueError(
                "inversion_defences must be MECHANISM:SENSITIVITY with sensitivity "
                f"one of {', '.join(_SENSITIVITIES)}, got {text!r}"
            )
        defences.append(Defence(mechanism, sensitivity))
    if len(set(defences)) < len(defences):
        raise ValueError("inversion_defences must name each defence once")
    epsilons = flag_values.numbers(
        "inversion_epsilons",
        values.inversion_epsilons,
        allowed="numbers > 0",
        is_allowed=lambda epsilon: 0 < epsilon < math.inf,
        may_be_empty=True,
    )
    return defences + [
        Defence("gaussian", "update_clip", epsilon) for epsilon in epsilons
    ]


def mechanism_settings(config: ExperimentConfig, defence: Defence) -> MechanismConfig:
    """The defence's settings for one upload of one image.

    fedsva and fedsdp have no analytic calibration: their printed formula is taken,
    which at ε ≥ 1 is nominal.
    """
    printed = defence.mechanism in ("fedsva", "fedsdp")
    return plan.mechanism_config(
        dataclasses.replace(
            config,
            mechanism=defence.mechanism,
            sensitivity=defence.sensitivity,
            noise_multiplier=float(analytic_multiplier(config.epsilon, config.delta)),
            epsilon=defence.epsilon or config.epsilon,
            calibration="classical" if printed else config.calibration,
            allow_large_epsilon=printed or config.allow_large_epsilon,
        )
    )
