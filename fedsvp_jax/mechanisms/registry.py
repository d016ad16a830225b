"""Every mechanism by name; others may be added from outside."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.core.settings import Settings, unknown

from . import (
    discrete_noise,
    dp_fedavg,
    fixed,
    nbafl,
    reestimation,
    release,
    schedules,
    shapley_guided,
    shared_noise,
)
from .base import Mechanism, free_before, nominal
from .config import MechanismConfig, check_config
from .subsampling import is_poisson, subsampling

Factory = Callable[[MechanismConfig], Mechanism]


class Entry(NamedTuple):
    """The facts of a mechanism before it is made: see `register_mechanism`."""

    label: str
    factory: Factory | None = None
    summary: str = ""
    settings: type[Settings] | None = None
    noise_setting: str | None = "epsilon"
    unread: tuple[str, ...] = ()
    explain: Callable[[Record], str] = lambda config: ""

    @property
    def epsilon_sets_noise(self) -> bool:
        """Whether the setting epsilon decides the noise."""
        return self.noise_setting == "epsilon"

    @property
    def own_settings(self) -> frozenset[str]:
        """The names of the settings that are the mechanism's own."""
        fields = dataclasses.fields(self.settings) if self.settings else ()
        return frozenset(field.name for field in fields)


_REGISTRY: dict[str, Entry] = {}


def register_mechanism(
    name: str,
    factory: Factory,
    *,
    summary: str,
    settings: type[Settings] | None = None,
    label: str | None = None,
    noise_setting: str | None = "epsilon",
    unread: tuple[str, ...] = (),
    explain: Callable[[Record], str] = lambda config: "",
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
    if name in _REGISTRY:
        raise ValueError(f"name must be new, got {name!r}, which is registered")
    _REGISTRY[name] = Entry(
        label or name, factory, summary, settings, noise_setting, unread, explain
    )


def mechanism_names() -> tuple[str, ...]:
    """All names, in the order of registration."""
    return tuple(_REGISTRY)


def about(name: str) -> Entry:
    """The registered facts of a mechanism; of an unknown name its label alone.

    Results of a mechanism from outside can be shown where it is not registered.
    """
    return _REGISTRY.get(name, Entry(name))


def unread_settings(name: str) -> frozenset[str]:
    """The settings that a mechanism does not read; empty for unknown names.

    They are the common ones that it was registered with as `unread`, epsilon where it
    does not set the noise, and the other mechanisms' own.
    """
    entry = about(name)
    if entry.factory is None:
        return frozenset()
    all_settings = frozenset().union(
        *(registered.own_settings for registered in _REGISTRY.values())
    )
    common = entry.unread if entry.epsilon_sets_noise else (*entry.unread, "epsilon")
    return all_settings - entry.own_settings | frozenset(common)


def make_mechanism(name: str, config: MechanismConfig) -> Mechanism:
    """Builds a mechanism; concrete numbers of the config are checked, tracers pass.

    Raises:
      ValueError: unknown name, or a setting out of its range.
    """
    entry = about(name)
    if entry.factory is None:
        raise unknown("mechanism", name, mechanism_names())
    check_config(config)
    settings_class = entry.settings
    if settings_class is not None and config.settings is None:
        config = dataclasses.replace(config, settings=settings_class())
    mechanism = entry.factory(config)
    if not isinstance(mechanism, Mechanism):
        file = getattr(entry.factory, "__globals__", {}).get("__file__")
        raise ValueError(
            f"the factory of mechanism {name} in {file} must return a Mechanism, as of "
            f"base.chain, got {mechanism!r}"
        )
    if mechanism.needs_contribution and release.spends_release_budget(config):
        mechanism = mechanism._replace(release_epsilon=config.release_epsilon)
    if is_poisson(config):
        mechanism = mechanism._replace(subsampling=subsampling(config))
    if name != "none":
        if config.noise_sampler == "discrete":
            mechanism = discrete_noise.discrete(mechanism, config, name)
        if config.noise_trust == "secure_aggregation":
            mechanism = shared_noise.shared(mechanism, config, name)
    if config.clip.is_query:
        mechanism = free_before(mechanism, config.private_from, config.num_rounds)
    if name not in BUILT_IN:
        mechanism = nominal(
            mechanism, "the mechanism is code from outside, which nothing here proves"
        )
    return mechanism


def noise_setting(name: str) -> tuple[str, bool]:
    """The setting that scales a mechanism's noise; whether a larger one means less.

    Raises:
      ValueError: no setting scales its noise.
    """
    entry = about(name)
    if entry.noise_setting is None:
        raise ValueError(
            f"no setting scales the noise of mechanism {name}: nothing to solve for"
        )
    return entry.noise_setting, entry.epsilon_sets_noise


@dataclasses.dataclass(frozen=True)
class BuiltInSettings(
    shapley_guided.ShapleyGuidedSettings,
    nbafl.NbaflSettings,
    schedules.TimeVaryingSettings,
    schedules.DpaSettings,
    reestimation.ReestimationSettings,
    dp_fedavg.DpFedavgSettings,
):
    """Mechanisms: the own settings of all built-in ones, for `ExperimentConfig`."""


_TEXTS = toml_beside(__file__, "registry.toml")


def _built_in(name: str, factory: Factory, **fields: Any) -> None:
    """Registers a mechanism of which registry.toml tells the rest."""
    texts = _TEXTS["mechanisms"][name]
    unread = [_TEXTS["groups"][group] for group in texts["unread"]]
    fields |= texts | {"unread": tuple(itertools.chain(*unread))}
    register_mechanism(name, factory, **fields)


_built_in("none", fixed.make_none, noise_setting=None)
_built_in("nbafl", nbafl.make_nbafl, settings=nbafl.NbaflSettings)
_built_in(
    "time_varying", schedules.make_time_varying, settings=schedules.TimeVaryingSettings
)
_built_in(
    "reestimation",
    reestimation.make_reestimation,
    settings=reestimation.ReestimationSettings,
)
_built_in("dpa", schedules.make_dpa, settings=schedules.DpaSettings)
_built_in("dp_fedavg", dp_fedavg.make_dp_fedavg, settings=dp_fedavg.DpFedavgSettings)
for _name, _formula, _tolerance_of in (
    (
        "fedsdp",
        "clip(R/2 − 1, −3, 1) − ln δ²",
        shapley_guided.fedsdp_risk_tolerance,
    ),
    ("fedsva", "R − ln δ²", shapley_guided.risk_tolerance),
):
    _built_in(
        _name,
        partial(shapley_guided.make_guided, tolerance_of=_tolerance_of),
        settings=shapley_guided.ShapleyGuidedSettings,
        explain=shapley_guided.explanation(_formula, _tolerance_of),
    )
_built_in("gaussian", fixed.make_gaussian)
BUILT_IN = mechanism_names()
