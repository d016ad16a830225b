"""Flower: the strategy and the mods of an app.

Source: flwr 1.42, `clientapp/mod/*.py`, `serverapp/strategy/dp_*.py`, `fedavg.py`
(whose `configure_train` asks as few as `min_train_nodes` clients, since it counts those
that are connected before it waits for others) and `supercore/differential_privacy.py`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fedsvp_jax.core.files import toml_beside

from .components import Component, ask, unknown
from .noise import Noise, Setting, Stated, nothing

_KNOWN = toml_beside(__file__, "engines.toml")["flower"]
_NORM_BIT = "adaptiveclipping_mod sends, without noise, whether the update was clipped"


def live(
    strategy: Any = None,
    mods: Sequence[Any] = (),
    *,
    largest_weight: float | None = None,
) -> list[Noise]:
    """The noises of an app as it stands.

    Args:
      strategy: that the ServerApp starts; FedAvg and FedProx alone add no noise.
      mods: that the ClientApp was made with, in their order.
      largest_weight: of a client in the average, in (0, 1]. It counts as 1 where it is
        None, or the average may be of fewer clients than the noise is made for.
    """
    if not isinstance(mods, Sequence):
        raise TypeError(f"mods are a list, got {mods!r}")
    clients = [ask(mod, _KNOWN["mods"]) for mod in mods]
    names = [mod.name for mod in clients]
    lines = (_NORM_BIT,) * ("adaptiveclipping_mod" in names)
    averages = _KNOWN["averages"]
    noises = [
        classical_noise(mod.source, mod.values)
        for mod in clients
        if mod.name == "LocalDpMod"
    ]
    if strategy is not None and not ask(strategy, averages).name:
        server = ask(strategy, _KNOWN["strategies"])
        inner = ask(server.values.get("strategy"), averages)
        strange = unknown([server]) or unknown([inner])
        if not strange:
            noises.append(_central(server, inner, names, largest_weight))
        lines += strange
    lines += unknown(clients)
    if not noises:
        return [nothing("the app", "no noise is understood", *lines)]
    return [noise._replace(flaws=noise.flaws + lines) for noise in noises]


def classical_noise(source: str, values: Mapping[str, Any]) -> Noise:
    """Noise of std s·sqrt(2 ln(1.25/δ))/ε on an update clipped to C, s given apart.

    Raises:
      ValueError: C, ε or δ out of its range.
    """
    settings = Component(source, values)
    clip = settings.number("clipping_norm", above=0)
    sensitivity = settings.number("sensitivity", at_least=0)
    epsilon = settings.number("epsilon", above=0)
    delta = settings.number("delta", above=0, below=1)
    per_std = epsilon / math.sqrt(2 * math.log(1.25 / delta))
    std = sensitivity / per_std
    return Noise(
        source=source,
        text=f"Gaussian noise of std {std:.4g} on every upload, clipped to {clip:g}",
        std=std,
        multiplier=std / clip,
        stated=Stated(epsilon, delta, "upload"),
        setting=Setting("sensitivity", clip * per_std),
        assumptions=tuple(_KNOWN["assumptions"]),
    )


def _central(
    server: Component, inner: Component, mods: Collection[str], weight: float | None
) -> Noise:
    """A strategy whose server adds noise of std z·C/n to the average.

    The average is of all who answer: one client fewer moves it by up to 2C/n.
    """
    multiplier = server.number("noise_multiplier", at_least=0)
    clip = server.number("clipping_norm", above=0)
    clients = server.number("num_sampled_clients", at_least=1)
    accountant = server.values.get("accountant")
    text = (
        f"Gaussian noise of std {multiplier * clip / clients:.4g} on the average of "
        f"{clients:g} updates, each clipped to {clip:g}"
    )
    if "ClientSide" in server.name and "fixedclipping_mod" not in mods:
        why = "no client clips: fixedclipping_mod is not in mods"
        return nothing(server.source, text, why)
    share = Component(
        "live", {"largest_weight": 1 / clients if weight is None else weight}
    ).number(
        "largest_weight",
        at_least=1 / clients,  # one of n weights is that large
        at_most=1,
    )
    caveat, stated, rounds = [], None, None
    if accountant is not None:  # with which Flower refuses other numbers and weights
        rounds = accountant.num_releases or None
        spent = accountant.get_privacy_spent()
        stated = Stated(spent.epsilon, spent.delta, "run") if rounds else None
    elif weight is None or inner.number("min_train_nodes", at_least=0) < clients:
        share = 1.0
        caveat = [
            f"one client may be the whole average, since {inner.name} weighs by "
            "examples and averages those that answer: less noise is enough with "
            f"its min_train_nodes={clients:g} and largest_weight, which you state"
        ]
    return Noise(
        source=server.source,
        text=text,
        std=multiplier * clip / clients,
        multiplier=multiplier / (share * clients),
        view="observer",
        stated=stated,
        rounds=rounds,
        setting=Setting("noise_multiplier", share * clients),
        assumptions=(
            *caveat,
            "the server is trusted: it sees every update",
            "every client that is asked answers, and takes part in every round; one "
            "that does not answer moves the average by as much as one that is replaced",
            *_KNOWN["assumptions"],
        ),
    )
