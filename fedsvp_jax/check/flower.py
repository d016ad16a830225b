"""Flower: LocalDpMod, the strategies for central noise, and FLIP's mod.

Source: flwr 1.41 and 1.42, `clientapp/mod/localdp_mod.py`, `serverapp/strategy/dp_*.py`
and `supercore/differential_privacy.py`; FLIP, `flip/flower/privacy.py`.
"""

import pathlib
import tomllib
from collections.abc import Mapping
from typing import Any

from fedsvp_jax.check.noise import Facts, Noise, Setting, Stated, classical_constant
from fedsvp_jax.check.python_calls import Call, calls, finite

_CENTRAL = "DifferentialPrivacy{}Side{}Clipping"
_FIXED = [_CENTRAL.format(side, "Fixed") for side in ("Server", "Client")]
_ADAPTIVE = [_CENTRAL.format(side, "Adaptive") for side in ("Server", "Client")]
_LOCAL = "clipping_norm sensitivity epsilon delta"
_FUNCTIONS = (
    {"LocalDpMod": _LOCAL}
    | dict.fromkeys(
        _FIXED, "strategy noise_multiplier clipping_norm num_sampled_clients"
    )
    | dict.fromkeys(
        _ADAPTIVE,
        "strategy noise_multiplier num_sampled_clients initial_clipping_norm "
        "target_clipped_quantile clip_norm_lr clipped_count_stddev",
    )
)
_FLIP = "flip_local_dp_mod"
FLIP_DEFAULTS = {
    "clipping_norm": 1.0,
    "sensitivity": 1e-4,
    "epsilon": 10.0,
    "delta": 1e-5,
}
_REST = (
    "what else leaves, metrics and the number of examples, tells nothing",
    "updates are finite: the clip lets NaN through",
    "the noise, floating-point numbers of NumPy, is as good as real and nobody's guess",
)


def read(path: pathlib.Path, facts: Facts) -> list[Noise]:
    """The noises of an app: of a pyproject.toml and its package, or of one .py file.

    Raises:
      ValueError: a file is unreadable, or a value that decides the noise is.
    """
    config, files = _app(path) if path.suffix == ".toml" else ({}, [path])
    told = config.get("num-server-rounds")
    rounds = told if isinstance(told, int) and told >= 1 else None
    found = []
    for file in files:
        for call in calls(file, _FUNCTIONS, config=config, overrides=facts.overrides):
            reader = _local if call.name == "LocalDpMod" else _central
            found.append(reader(call, facts))
        if _FLIP in file.read_text(encoding="utf-8"):
            found.append(_flip(file, config, facts))
    return [noise._replace(rounds=rounds) for noise in found]


def _app(path: pathlib.Path) -> tuple[dict[str, Any], list[pathlib.Path]]:
    """The app's run configuration, flat, and the Python files of its package."""
    try:
        app = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
        module = str(app["components"]["clientapp"]).partition(":")[0]
        config = _flat(app.get("config", {}))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is no pyproject.toml of a Flower app, which has a table "
            "[tool.flwr.app.components]"
        ) from error
    place = path.parent / module.replace(".", "/")
    folder = place if place.is_dir() else place.parent
    files = (
        sorted(folder.glob("**/*.py"))
        if folder != path.parent
        else [place.with_suffix(".py")]
    )
    if not files:
        raise ValueError(f"{path} names the module {module}, which is not beside it")
    return config, files


def _flat(config: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested tables as Flower hands them to an app: "a.b"."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[before + name] = value
    return flat


def classical_noise(
    source: str, told: Mapping[str, Any], *, assumptions: tuple[str, ...] = _REST
) -> Noise:
    """Noise of std s·sqrt(2 ln(1.25/δ))/ε on an update clipped to C, s given apart.

    Raises:
      ValueError: C, ε or δ out of its range.
    """
    clip = finite(source, "clipping_norm", told["clipping_norm"], above=0)
    sensitivity = finite(source, "sensitivity", told["sensitivity"], at_least=0)
    epsilon = finite(source, "epsilon", told["epsilon"], above=0)
    delta = finite(source, "delta", told["delta"], above=0)
    if delta >= 1:
        raise ValueError(f"delta of {source} must be in (0, 1), got {delta:g}")
    per_std = epsilon / classical_constant(delta)
    std = sensitivity / per_std
    return Noise(
        source=source,
        text=f"Gaussian noise of std {std:.4g} on every upload, clipped to {clip:g}",
        std=std,
        multiplier=std / clip,
        stated=Stated(epsilon, delta, "upload"),
        setting=Setting("sensitivity", sensitivity, clip * per_std),
        assumptions=assumptions,
    )


def _local(call: Call, facts: Facts) -> Noise:
    del facts
    told = {name: call.get(name) for name in _LOCAL.split()}
    return classical_noise(call.source, told)


def _flip(file: pathlib.Path, config: Mapping[str, Any], facts: Facts) -> Noise:
    source = f"{_FLIP} in {file.name}"
    told = {
        name: config.get("dp-" + name.replace("_", "-"), default)
        for name, default in FLIP_DEFAULTS.items()
    } | dict(facts.overrides)
    if not config.get("dp-enabled", True):
        return none(source, "dp-enabled is false: updates leave as they are")
    return classical_noise(source, told)


def none(source: str, text: str) -> Noise:
    """Of a setting that adds no noise."""
    return Noise(
        source=source,
        text=text,
        std=0.0,
        multiplier=0.0,
        flaws=("there is no noise",),
    )


def _central(call: Call, facts: Facts) -> Noise:
    """A strategy whose server adds noise of std z·C/n to the average."""
    multiplier = call.number("noise_multiplier", at_least=0)
    clients = call.number("num_sampled_clients", at_least=1)
    share = finite(
        "the command line",
        "largest_weight",
        1 / clients if facts.largest_weight is None else facts.largest_weight,
        at_least=1 / clients,  # one of n weights is that large
        at_most=1,
    )
    update = multiplier
    flaws: tuple[str, ...] = ()
    if call.name in _ADAPTIVE and multiplier > 0:
        count = call.get("clipped_count_stddev")
        count = clients / 20 if count is None else float(count)
        if not 2 * count > multiplier:
            raise ValueError(
                f"{call.source}: clipped_count_stddev = {count:g} must exceed half of "
                f"noise_multiplier = {multiplier:g}"
            )
        update = (multiplier**-2 - (2 * count) ** -2) ** -0.5
        # One client moves the count by 1, of which the split assumes one half.
        whole = (update / (share * clients)) ** -2 + count**-2
        multiplier_of_both = whole**-0.5
    else:
        multiplier_of_both = multiplier / (share * clients)
    if facts.largest_weight is None:
        flaws = (
            "FedAvg weighs clients by their examples, and all are taken to weigh the "
            "same: give --largest_weight",
        )
    if call.name in _FIXED:
        clip = call.number("clipping_norm", above=0)
    else:
        clip = call.number("initial_clipping_norm", 0.1, above=0)
    std = update * clip / clients
    kind = ", at first" if call.name in _ADAPTIVE else ""
    scaled = call.name in _FIXED and multiplier > 0
    return Noise(
        source=call.source,
        text=f"Gaussian noise of std {std:.4g} on the average of {clients:g} updates, "
        f"each clipped to {clip:g}{kind}",
        std=std,
        multiplier=multiplier_of_both,
        view="observer",
        relation="add_remove",
        setting=Setting("noise_multiplier", multiplier, share * clients)
        if scaled
        else None,
        assumptions=(
            "the server is trusted: it sees every update",
            f"all {clients:g} clients answer, and a client takes part in every round",
            *_REST,
        ),
        flaws=flaws,
    )
