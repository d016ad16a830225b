"""Which mechanisms, sensitivities and pairs of worlds are audited."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.mechanisms import MechanismConfig

# Stages that all mechanisms share are audited with some of them, whose noise fits.
_PROMISED = ("nbafl", "gaussian", "dp_fedavg")
_SUMMED = ("nbafl", "gaussian")
_NOTHING: Mapping[str, Any] = {}
_LOUD = {"epsilon": 10.0}  # of gaussian, whose cases then tell worlds apart
_SAMPLED = {"epsilon": 5.6, "batches": "poisson", "local_steps": 1}
_SUM = {"noise_trust": "secure_aggregation"}
_CYCLIC = {"cohorts": "cyclic", "num_clients": 20}
_TURNS = {**_CYCLIC, "num_rounds": 8}  # four turns each
_COLLUDERS = {"colluders": 7}  # of a cohort of 10
_SILENT = 2  # rounds without the private query


class Case(NamedTuple):
    """One mechanism, one clipping and one pair of worlds."""

    mechanism: str
    clipping: str
    relation: str  # replace_one or add_remove, as in the settings
    worlds: str
    changes: Mapping[str, Any] = _NOTHING  # settings that the worlds need
    claimed: bool = True  # whether the worlds are neighbours as the claim means it
    wide: bool = False  # the noise scale is to be read from the upload
    promised: bool = False  # whether a promise ends the uploads
    persons_rows: int | None = None  # rows of the person that differs

    @property
    def name(self) -> str:
        """The case's name in the file system."""
        worlds = self.worlds.replace(" ", "_")
        return f"{self.mechanism}-{self.clipping}-{worlds}"

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
    replaced = (mechanism, "update_clip", "replace_one")
    removed = (mechanism, "update_clip", "add_remove")
    printed = (mechanism, "paper", "replace_one")
    cases = [
        Case(*printed, "granted"),
        Case(*printed, "record"),
        Case(*printed, "client", claimed=False),
        Case(mechanism, "weight_clip", "replace_one", "update"),
        Case(*replaced, "update"),
        Case(*removed, "presence"),
        Case(mechanism, "per_example", "replace_one", "record"),
        Case(mechanism, "per_example", "add_remove", "record left out"),
        Case(mechanism, "attribute_records", "replace_one", "private record"),
        Case(mechanism, "attribute_records", "add_remove", "private record left out"),
    ]
    lenient = dataclasses.replace(
        config, mechanism=mechanism, calibration="classical", allow_large_epsilon=True
    )
    _, instance = plan.make_configured_mechanism(lenient)
    if instance.claim.central:
        adaptive = {"adaptive_clip": True, "count_noise_std": 1.1}
        cases = [
            Case(*removed, "presence"),
            Case(*removed, "partial cohort"),
            Case(*removed, "adaptive clip", adaptive),
            Case(*removed, "bands", {"noise_bands": 2, **_CYCLIC}),
            Case(*removed, "turns", _TURNS, promised=True),
            Case(*removed, "thinned turns", _TURNS, promised=True),
        ]
    is_gaussian = mechanism == "gaussian"
    if is_gaussian:
        grid = {"noise_sampler": "discrete", "noise_bits": 16}
        several = _SAMPLED | {"local_steps": 4, "epsilon": 13.0}
        replaced_record = (mechanism, "per_example", "replace_one")
        record = (mechanism, "per_example", "add_remove")
        private = (mechanism, "attribute_records", "replace_one")
        cases += [
            Case(*replaced, "two uploads"),
            Case(*replaced, "discrete noise", grid),
            Case(*record, "record in secret batches", _SAMPLED),
            Case(*record, "record in several secret batches", several),
            Case(*record, "record in summed secret batches", {**_SAMPLED, **_SUM}),
            Case(*record, "person in secret batches", _SAMPLED, persons_rows=4),
            Case(*record, "person left out", persons_rows=3),
            Case(*replaced_record, "person", persons_rows=3),
            Case(*replaced, "unequal weights"),
            Case(*private, "private record asked later", {"private_from": _SILENT}),
        ]
    if mechanism in _SUMMED:
        # So that an audit sees which part of the noise is missing.
        shared = {**_SUM, "epsilon": 4.0, "calibration": "analytic"}
        pooled = shared | _COLLUDERS
        cases += [
            Case(*replaced, "shared noise", shared),
            Case(*replaced, "colluders", pooled),
            Case(mechanism, "attribute_records", "replace_one", "colluders", pooled),
        ]
    if mechanism in _PROMISED:
        cases.append(Case(*removed, "promise", promised=True))
    if is_gaussian:
        cases = [case._replace(changes=_LOUD | {**case.changes}) for case in cases]
    if instance.needs_contribution:
        cases.append(Case(*replaced, "ratio", wide=True))
        for release in ("laplace", "randomized_response"):
            changes = {"contribution_release": release, "release_epsilon": 1.0}
            cases.append(Case(*replaced, release.replace("_", " "), changes))
        formula = {"calibration": "classical"}  # which is the source's own
        cases = [case._replace(changes=formula | {**case.changes}) for case in cases]
    if instance.init(1).clients:  # its clip varies, so there is no granted bound
        cases[0] = Case(*replaced, "past norm", wide=True)
    return [case for case in cases if _is_supported(case, config)]


def _is_supported(case: Case, config: ResolvedConfig) -> bool:
    try:
        case_settings(case, config)
    except ValueError:
        return False
    return True


def case_settings(
    case: Case, config: ResolvedConfig, num_examples: int = 1
) -> MechanismConfig:
    """The mechanism's settings in a case."""
    return plan.mechanism_config(
        case.settings(config),
        min_num_examples=num_examples,
        rows_per_person=case.persons_rows,
    )
