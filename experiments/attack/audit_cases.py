"""Which mechanisms, sensitivities and pairs of worlds are audited."""

import contextlib
import dataclasses
from typing import NamedTuple

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.federation import plan
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig

_CASES = toml_beside(__file__, "audit_cases.toml")
_NOTHING: Record = {}
# Settings of all cases of a mechanism. At this ε those of gaussian tell worlds apart.
# Noise that depends on R is calibrated by the formula of its source.
_LOUD = {"epsilon": 10.0}
_FORMULA = {"calibration": "classical"}


class Case(NamedTuple):
    """One mechanism, one clipping and one pair of worlds."""

    mechanism: str
    clipping: str
    relation: str  # replace_one or add_remove, as in the settings
    worlds: str
    changes: Record = _NOTHING  # settings that the worlds need
    claimed: bool = True  # whether the worlds are neighbours as the claim means it
    wide: bool = False  # the noise scale is to be read from the upload
    promised: bool = False  # whether a promise ends the uploads
    persons_rows: int | None = None  # rows of the person that differs

    @property
    def name(self) -> str:
        """The case's name in the file system."""
        return f"{self.mechanism}-{self.clipping}-{self.worlds.replace(' ', '_')}"

    def settings(self, config: ResolvedConfig) -> ResolvedConfig:
        """The experiment's settings in this case."""
        return dataclasses.replace(
            config,
            mechanism=self.mechanism,
            clipping=self.clipping,
            relation=self.relation,
            **self.changes,
        )


def cases_of(mechanism: str, config: ResolvedConfig) -> list[Case]:
    """The cases whose clipping and relation the mechanism supports."""
    lenient = dataclasses.replace(
        config, mechanism=mechanism, calibration="classical", allow_large_epsilon=True
    )
    _, instance = plan.make_configured_mechanism(lenient)
    groups = {
        "every": not instance.basis.central,
        "central": instance.basis.central,
        "gaussian": mechanism == "gaussian",
        "summed": mechanism in ("nbafl", "gaussian"),
        "promised": mechanism in ("nbafl", "gaussian", "dp_fedavg"),
        "contribution": instance.needs_contribution,
    }
    common = _LOUD if groups["gaussian"] else _NOTHING
    if groups["contribution"]:
        common = _FORMULA
    cases = [
        Case(mechanism, **fields)
        for group, is_its in groups.items()
        for fields in _CASES[group]
        if is_its
    ]
    if instance.init(1).clients:  # its clip varies, so there is no granted bound
        cases[0] = Case(mechanism, "update_clip", "replace_one", "past norm", wide=True)
    supported = []
    for case in cases:
        case = case._replace(changes={**common, **case.changes})
        with contextlib.suppress(ValueError):  # the mechanism refuses it
            case_mechanism(case, config)
            supported.append(case)
    return supported


def case_mechanism(
    case: Case, config: ResolvedConfig, num_examples: int = 1
) -> tuple[MechanismConfig, Mechanism]:
    """The mechanism's settings in a case, and the mechanism."""
    return plan.make_configured_mechanism(
        case.settings(config),
        min_num_examples=num_examples,
        rows_per_person=case.persons_rows,
    )
