"""Every mechanism by name; others may be added from outside."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedsvp_jax.extras import around
from fedsvp_jax.mechanisms import baseline_settings, fixed, shapley_guided
from fedsvp_jax.mechanisms.base import Mechanism, free_before
from fedsvp_jax.mechanisms.config import MechanismConfig, check_config
from fedsvp_jax.mechanisms.discrete_noise import discrete
from fedsvp_jax.mechanisms.release import spends_release_budget
from fedsvp_jax.mechanisms.shared_noise import shared
from fedsvp_jax.mechanisms.subsampling import is_poisson, subsampling
from fedsvp_jax.settings import Settings, unknown


class Entry(NamedTuple):
    """One registered mechanism."""

    factory: Callable[[MechanismConfig], Mechanism]
    settings: type[Settings] | None  # the mechanism's own
    summary: str
    label: str
    noise_setting: str | None
    unread: tuple[str, ...]  # common settings that it does not read
    explain: Callable[[Mapping[str, Any]], str] | None


_REGISTRY: dict[str, Entry] = {}
# Former names: command lines and files that were written with them stay readable.
_RENAMED = {"sensitivity": "reestimation"}
# Of these the source's formula was not to be had, so that ours stands for it.
_RECONSTRUCTIONS = ("time_varying", "reestimation", "dpa", "fedsdp")


def register_mechanism(
    name: str,
    factory: Callable[[MechanismConfig], Mechanism],
    *,
    summary: str,
    settings: type[Settings] | None = None,
    label: str | None = None,
    noise_setting: str | None = "epsilon",
    unread: tuple[str, ...] = (),
    explain: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """Makes a mechanism known by name.

    Args:
      name: new, and a Python identifier, so that it can stand in a flag.
      factory: `MechanismConfig -> Mechanism`, pure and traceable.
      summary: one line for --help and reports.
      settings: the class of the mechanism's own settings, a flax.struct.dataclass
        below `settings.Settings`. The factory finds an instance as `config.settings`,
        filled from the run's settings of the same names.
      label: how tables and figures call it; by default, its name.
      noise_setting: the setting that scales the noise, for `--solve=noise`; None when
        none does. Where it is not epsilon, which then does not set the noise, a sweep
        runs the mechanism at one epsilon, and tables show none.
      unread: names of common settings (of `NoiseSettings`, or those of the
        Shapley values) that the mechanism does not read. The command line refuses
        their flags, and pages do not show them.
      explain: where the noise follows R: a sentence for pages that says how, from the
        settings as config.json has them; "" where these lack a number.

    Raises:
      ValueError: the name is taken or no identifier.
    """
    if not name.isidentifier():
        raise ValueError(f"name must be an identifier, got {name!r}")
    if current_name(name) in _REGISTRY:
        raise ValueError(f"name must be new, got {name!r}, which is registered")
    _REGISTRY[name] = Entry(
        factory, settings, summary, label or name, noise_setting, unread, explain
    )


def mechanism_names() -> tuple[str, ...]:
    """All names, in the order of registration."""
    return tuple(_REGISTRY)


def current_name(name: str) -> str:
    """A mechanism's name today; `sensitivity` is the former name of `reestimation`."""
    return _RENAMED.get(name, name)


def _known(name: str) -> Entry | None:
    return _REGISTRY.get(current_name(name))


def _entry(name: str) -> Entry:
    entry = _known(name)
    if entry is None:
        raise ValueError(unknown("mechanism", name, mechanism_names()))
    return entry


def mechanism_summary(name: str) -> str:
    """One line for --help and reports; a reconstruction is called one.

    Raises:
      ValueError: unknown name.
    """
    mark = " [reconstruction]" if is_reconstruction(name) else ""
    return _entry(name).summary + mark


def is_reconstruction(name: str) -> bool:
    """Whether the source's formula was not to be had, so that ours stands for it."""
    return current_name(name) in _RECONSTRUCTIONS


def mechanism_label(name: str) -> str:
    """How tables and figures call it: `fedsva` -> `FedSVA`; unknown names as they are.

    Results of a mechanism from outside can be shown where it is not registered.
    """
    entry = _known(name)
    return entry.label if entry else name


def explained(name: str, config: Mapping[str, Any]) -> str:
    """How the noise of a run follows R; "" where it does not, and for unknown names."""
    entry = _known(name)
    return entry.explain(config) if entry and entry.explain else ""


def epsilon_sets_noise(name: str) -> bool:
    """Whether the setting epsilon decides the noise; true for unknown names."""
    entry = _known(name)
    return entry is None or entry.noise_setting == "epsilon"


def unread_settings(name: str) -> frozenset[str]:
    """The settings that a mechanism does not read; empty for unknown names.

    They are the common ones that it was registered with as `unread`, epsilon where it
    does not set the noise, and the other mechanisms' own.
    """
    entry = _known(name)
    if entry is None:
        return frozenset()
    others = set().union(*map(_own_settings, _REGISTRY.values()))
    common = {*entry.unread} | (set() if epsilon_sets_noise(name) else {"epsilon"})
    return frozenset(others - _own_settings(entry) | common)


def _own_settings(entry: Entry) -> set[str]:
    """The names of the settings that are the mechanism's own."""
    if entry.settings is None:
        return set()
    return {field.name for field in dataclasses.fields(entry.settings)}


def make_mechanism(name: str, config: MechanismConfig) -> Mechanism:
    """Builds a mechanism; concrete numbers of the config are checked, tracers pass.

    Raises:
      ValueError: unknown name, or a setting out of its range.
    """
    entry = _entry(name)
    check_config(config)
    wanted = entry.settings
    if wanted is not None and config.settings is None:
        config = dataclasses.replace(config, settings=wanted())
    if wanted is not None and not isinstance(config.settings, wanted):
        raise ValueError(
            f"settings of {name} must be {wanted.__name__}, got "
            f"{type(config.settings).__name__}"
        )
    mechanism = entry.factory(config)
    if mechanism.needs_contribution and spends_release_budget(config):
        mechanism = mechanism._replace(release_epsilon=config.release_epsilon)
    if is_poisson(config):
        mechanism = mechanism._replace(subsampling=subsampling(config))
    if config.noise_sampler == "discrete" and name != "none":
        mechanism = discrete(mechanism, config, name)
    if config.noise_trust == "secure_aggregation" and name != "none":
        mechanism = shared(mechanism, config, name)
    if config.clip.asks:
        mechanism = free_before(mechanism, config.private_from, config.num_rounds)
    return mechanism


def noise_setting(name: str) -> tuple[str, bool]:
    """The setting that scales a mechanism's noise; whether a larger one means less.

    Raises:
      ValueError: unknown name, or a mechanism whose noise no setting scales.
    """
    entry = _entry(name)
    if entry.noise_setting is None:
        raise ValueError(
            f"no setting scales the noise of mechanism {name}: nothing to solve for"
        )
    return entry.noise_setting, epsilon_sets_noise(name)


def mechanism_settings(name: str) -> type[Settings] | None:
    """The class of a mechanism's own settings; None where it has none.

    Raises:
      ValueError: unknown name.
    """
    return _entry(name).settings


@dataclasses.dataclass(frozen=True)
class BuiltInSettings(
    shapley_guided.ShapleyGuidedSettings,
    baseline_settings.NbaflSettings,
    baseline_settings.TimeVaryingSettings,
    baseline_settings.DpaSettings,
    baseline_settings.ReestimationSettings,
    baseline_settings.DpFedavgSettings,
    fixed.GaussianSettings,
):
    """Mechanisms: the own settings of all built-in ones, for `ExperimentConfig`."""


def _baseline(module: str, name: str) -> Callable[[MechanismConfig], Mechanism]:
    """A factory of the room around the core, loaded when the mechanism is made."""

    def factory(config: MechanismConfig) -> Mechanism:
        made: Mechanism = getattr(around(f"baselines.{module}"), name)(config)
        return made

    return factory


_CONTRIBUTION = (  # read where the noise follows R
    "contribution_release",
    "release_epsilon",
    "shapley",
    "shapley_trainings",
    "coalition_chunk_size",
    "utility",
    "empty_utility",
)
_SCALE = "noise_examples_scale"  # read where the noise follows |D|
_CALIBRATION = ("epsilon", "calibration", "allow_large_epsilon")

register_mechanism(
    "none",
    fixed.make_none,
    label="FedAvg",
    noise_setting=None,
    summary="FedAvg without noise",
    unread=(
        "delta",
        "relation",
        "noise_trust",
        "noise_sampler",
        *_CALIBRATION,
        *_CONTRIBUTION,
        _SCALE,
    ),
)
register_mechanism(
    "nbafl",
    _baseline("nbafl", "make_nbafl"),
    settings=baseline_settings.NbaflSettings,
    label="NbAFL",
    summary="NbAFL (Wei et al. 2020): constant noise on the uplink, on the downlink "
    "if asked for",
    unread=_CONTRIBUTION,
)
register_mechanism(
    "time_varying",
    _baseline("schedules", "make_time_varying"),
    settings=baseline_settings.TimeVaryingSettings,
    label="Time-Varying DP",
    summary="Time-Varying DP (Yuan et al. 2023): noise in a geometric series of rounds",
    unread=_CONTRIBUTION,
)
register_mechanism(
    "reestimation",
    _baseline("reestimation", "make_reestimation"),
    settings=baseline_settings.ReestimationSettings,
    label="Sensitivity re-estimation",
    summary="Sensitivity re-estimation (Xue et al. 2023): the clip follows past norms",
    unread=_CONTRIBUTION,
)
register_mechanism(
    "dpa",
    _baseline("schedules", "make_dpa"),
    settings=baseline_settings.DpaSettings,
    label="DPA",
    summary="Dynamic privacy allocation (Zhang et al. 2024): variances that minimise "
    "the final error bound",
    unread=_CONTRIBUTION,
)
register_mechanism(
    "dp_fedavg",
    _baseline("dp_fedavg", "make_dp_fedavg"),
    settings=baseline_settings.DpFedavgSettings,
    label="DP-FedAvg",
    noise_setting="noise_multiplier",
    summary="Central DP-FedAvg (McMahan et al. 2018), adaptive clip if asked for "
    "(Andrew et al. 2021)",
    unread=("relation", "noise_trust", *_CALIBRATION, *_CONTRIBUTION, _SCALE),
)
register_mechanism(
    "fedsdp",
    shapley_guided.make_fedsdp,
    settings=shapley_guided.ShapleyGuidedSettings,
    label="FedSDP",
    summary="FedSDP: noise guided by R, with the public code's offset",
    explain=shapley_guided.explanation(
        "clip(R/2 − 1, −3, 1) − ln δ²", shapley_guided.fedsdp_risk_tolerance
    ),
)
register_mechanism(
    "fedsva",
    shapley_guided.make_fedsva,
    settings=shapley_guided.ShapleyGuidedSettings,
    label="FedSVA",
    summary="FedSVA: noise guided by the contribution ratio R, as printed",
    explain=shapley_guided.explanation("R − ln δ²", shapley_guided.risk_tolerance),
)
register_mechanism(
    "gaussian",
    fixed.make_gaussian,
    settings=fixed.GaussianSettings,
    label="Gaussian",
    noise_setting="noise_std",
    summary="Noise of one given standard deviation",
    unread=(*_CALIBRATION, *_CONTRIBUTION),
)
