"""Which mechanisms, sensitivities and pairs of worlds are audited."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig

FILTER = "influence_filter"  # audited beside the mechanisms
DEPLOYED = "deployed_sum"  # audited where it is named: what a real client adds to a sum
SECRET = "record in secret batches"  # of batches that nobody but the client knows
SEVERAL = "record in several secret batches"
SUMMED = "record in summed secret batches"
PERSON = "person in secret batches"
PERSONS = {
    PERSON: 4,
    "person": 3,
    "person left out": 3,
}  # rows of the person that differs
UNEQUAL = "unequal weights"
PARTIAL = "partial cohort"
BANDS = "bands"
ASKED_LATER = "private record asked later"
COLLUDERS = "colluders"  # worlds in which the adversary knows other clients' noise
TURNS = ("turns", "thinned turns")  # worlds of whole federations in cyclic cohorts
PROMISED = ("promise", *TURNS)  # worlds in which a promise ends the uploads
IN_SUM = "deployed sum"
# Stages that all mechanisms share are audited with some of them, whose noise fits.
_PROMISED = ("nbafl", "gaussian", "dp_fedavg")
_SUMMED = ("nbafl", "gaussian")
_NOTHING: Mapping[str, Any] = {}
_LOUD = {"epsilon": 10.0}  # of gaussian, whose cases then tell worlds apart
_SAMPLED = {"epsilon": 5.6, "batches": "poisson", "local_steps": 1}
_CYCLIC = {"cohorts": "cyclic", "num_clients": 20, "num_rounds": 8}  # four turns each
_COLLUDERS = 7  # of a cohort of 10
_DEPLOYED: Mapping[str, Any] = {
    "noise_trust": "secure_aggregation",
    "noise_sampler": "discrete",
    "epsilon": 4.0,
}
_SILENT = 2  # rounds without the private query


class Case(NamedTuple):
    """One mechanism, one clipping and one pair of worlds."""

    mechanism: str
    clipping: str
    relation: str  # replace_one or add_remove, as in the settings
    worlds: str
    claimed: bool = True  # whether the worlds are neighbours as the claim means it
    wide: bool = False  # the noise scale is to be read from the upload
    changes: Mapping[str, Any] = _NOTHING  # settings that the worlds need

    @property
    def name(self) -> str:
        """The case's name in the file system."""
        worlds = self.worlds.replace(" ", "_")
        return f"{self.mechanism}-{self.clipping}-{worlds}"

    def settings(self, config: ExperimentConfig) -> ExperimentConfig:
        """The experiment's settings in this case."""
        if self.mechanism == FILTER:
            return dataclasses.replace(config, **self.changes)
        return dataclasses.replace(
            config,
            mechanism=self.mechanism,
            clipping=self.clipping,
            relation=self.relation,
            **self.changes,
        )


def cases_of(mechanism: str, config: ExperimentConfig) -> list[Case]:
    """The cases whose clipping and relation the mechanism supports."""
    if mechanism == FILTER:
        return [
            Case(
                FILTER, "votes", "replace_one", "votes", changes={"vote_epsilon": 1.0}
            ),
            Case(
                FILTER,
                "update_clip",
                "replace_one",
                "contribution",
                changes={"contribution_noise": 2.0},
            ),
        ]
    if mechanism == DEPLOYED:
        changes = {**_DEPLOYED, "colluders": _COLLUDERS}
        return [Case("gaussian", "update_clip", "add_remove", IN_SUM, changes=changes)]
    replaced = partial(Case, mechanism, "update_clip", "replace_one")
    removed = partial(Case, mechanism, "update_clip", "add_remove")
    printed = partial(Case, mechanism, "paper", "replace_one")
    is_gaussian = mechanism == "gaussian"
    cases = [
        printed("granted"),
        printed("record"),
        printed("client", claimed=False),
        Case(mechanism, "weight_clip", "replace_one", "update"),
        replaced("update"),
        removed("presence"),
        *(
            Case(mechanism, clipping, relation, worlds)
            for clipping, record in (
                ("per_example", "record"),
                ("attribute_records", "private record"),
            )
            for relation, worlds in (
                ("replace_one", record),
                ("add_remove", f"{record} left out"),
            )
        ),
    ]
    instance = _make_mechanism(mechanism, config)
    if instance.claim.central:
        adaptive = {"adaptive_clip": True, "count_noise_std": 1.1}
        banded = {"noise_bands": 2, "cohorts": "cyclic", "num_clients": 20}
        cases = [
            removed("presence"),
            removed(PARTIAL),
            removed("adaptive clip", changes=adaptive),
            removed(BANDS, changes=banded),
            *(removed(worlds, changes=_CYCLIC) for worlds in TURNS),
        ]
    if is_gaussian:
        grid = {"noise_sampler": "discrete", "noise_bits": 16}
        several = {"local_steps": 4, "epsilon": 13.0}
        summed = _SAMPLED | {"noise_trust": "secure_aggregation"}
        per_example = partial(Case, mechanism, "per_example", "add_remove")
        private_query = partial(Case, mechanism, "attribute_records", "replace_one")
        cases += [
            replaced("two uploads"),
            replaced("discrete noise", changes=grid),
            per_example(SECRET, changes=_SAMPLED),
            per_example(SEVERAL, changes=_SAMPLED | several),
            per_example(SUMMED, changes=summed),
            per_example(PERSON, changes=_SAMPLED),
            per_example("person left out"),
            Case(mechanism, "per_example", "replace_one", "person"),
            replaced(UNEQUAL),
            private_query(ASKED_LATER, changes={"private_from": _SILENT}),
        ]
    if mechanism in _SUMMED:
        shared: dict[str, Any] = {"noise_trust": "secure_aggregation"}
        # So that an audit sees which part of the noise is missing.
        shared |= {"epsilon": 4.0, "calibration": "analytic"}
        pooled = shared | {"colluders": _COLLUDERS}
        cases += [
            Case(mechanism, clipping, "replace_one", worlds, changes=changes)
            for clipping, worlds, changes in (
                ("update_clip", "shared noise", shared),
                ("update_clip", COLLUDERS, pooled),
                ("attribute_records", COLLUDERS, pooled),
            )
        ]
    if mechanism in _PROMISED:
        cases.append(removed("promise"))
    if is_gaussian:
        cases = [case._replace(changes=_LOUD | {**case.changes}) for case in cases]
    if instance.needs_contribution:
        cases.append(replaced("ratio", wide=True))
        cases += [
            replaced(
                name.replace("_", " "),
                changes={"contribution_release": name, "release_epsilon": 1.0},
            )
            for name in ("laplace", "randomized_response")
        ]
        formula = {"calibration": "classical"}  # which is the source's own
        cases = [case._replace(changes=formula | {**case.changes}) for case in cases]
    if instance.init(1).clients:  # its clip varies, so there is no granted bound
        cases[0] = replaced("past norm", wide=True)
    return [case for case in cases if _is_supported(case, config)]


def _make_mechanism(name: str, config: ExperimentConfig) -> Mechanism:
    config = dataclasses.replace(
        config, mechanism=name, calibration="classical", allow_large_epsilon=True
    )
    return plan.make_configured_mechanism(config)[1]


def _is_supported(case: Case, config: ExperimentConfig) -> bool:
    try:
        case_settings(case, config)
    except ValueError:
        return False
    return True


def case_settings(
    case: Case, config: ExperimentConfig, num_examples: int = 1
) -> MechanismConfig:
    """The mechanism's settings in a case; not for a case of the filter."""
    return plan.mechanism_config(
        case.settings(config),
        min_num_examples=num_examples,
        rows_per_person=PERSONS.get(case.worlds),
    )
