"""Which mechanisms, sensitivities and pairs of worlds are audited."""

import dataclasses
from typing import NamedTuple

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.mechanisms import MechanismConfig

_SEES_RATIO = ("fedsva", "fedsdp")


class Case(NamedTuple):
    """One mechanism, one sensitivity and one pair of worlds."""

    mechanism: str
    sensitivity: str
    relation: str  # replace_one or add_remove, as in the settings
    worlds: str
    claimed: bool = True  # whether the worlds are neighbours as the claim means it
    wide: bool = False  # the noise scale is to be read from the upload

    @property
    def name(self) -> str:
        """The case's name in the file system."""
        worlds = self.worlds.replace(" ", "_")
        return f"{self.mechanism}-{self.sensitivity}-{worlds}"


def cases_of(mechanism: str, config: ExperimentConfig) -> list[Case]:
    """The cases whose sensitivity and relation the mechanism supports."""
    cases = [
        Case(mechanism, "paper", "replace_one", "granted"),
        Case(mechanism, "paper", "replace_one", "record"),
        Case(mechanism, "paper", "replace_one", "client", claimed=False),
        Case(mechanism, "weight_clip", "replace_one", "update"),
        Case(mechanism, "update_clip", "replace_one", "update"),
        Case(mechanism, "update_clip", "add_remove", "presence"),
        Case(mechanism, "per_example", "replace_one", "record"),
    ]
    if mechanism == "dp_fedavg":
        cases = [Case(mechanism, "update_clip", "add_remove", "presence")]
    if mechanism in _SEES_RATIO:
        cases.append(Case(mechanism, "update_clip", "replace_one", "ratio", wide=True))
    if mechanism == "reestimation":  # its clip varies, so there is no granted bound
        cases[0] = Case(mechanism, "update_clip", "replace_one", "past norm", wide=True)
    return [case for case in cases if _is_supported(case, config)]


def _is_supported(case: Case, config: ExperimentConfig) -> bool:
    try:
        case_settings(case, config)
    except ValueError:
        return False
    return True


def case_settings(
    case: Case, config: ExperimentConfig, num_examples: int = 1
) -> MechanismConfig:
    """The mechanism's settings in a case: fedsva and fedsdp keep their formula."""
    printed = case.mechanism in _SEES_RATIO
    return plan.mechanism_config(
        dataclasses.replace(
            config,
            mechanism=case.mechanism,
            sensitivity=case.sensitivity,
            relation=case.relation,
            calibration="classical" if printed else config.calibration,
        ),
        min_num_examples=num_examples,
    )
