"""A TOML file of one's settings, for any other program.

noise = "gaussian"       # or "laplace"
std = 0.5                # of a coordinate (b of a Laplace noise)
clip = 1.0               # L2 norm of what is noised (L1 with Laplace)
added_by = "client"      # or "server", to the sum of the clients' parts
unit = "client"          # or "record"
rounds = 20
steps = 1                # noised sums in a round
sampling_rate = 1.0      # of Poisson batches
[stated]
epsilon = 8.0
delta = 1e-5
per = "run"              # or "upload"
relation = "zero_out"    # one part against zero; or "replace_one"
"""

import pathlib
import tomllib
from typing import Any

from fedsvp_jax.check.components import Component
from fedsvp_jax.check.noise import RELATIONS, Facts, Noise, Setting, Stated

_NAMES = {
    "noise": ("gaussian", "laplace"),
    "added_by": ("client", "server"),
    "unit": ("client", "record"),
    "per": ("run", "upload"),
    "relation": RELATIONS,
}
_DEFAULTS = {
    "noise": "gaussian",
    "added_by": "client",
    "unit": "client",
    "sampling_rate": 1.0,
    "steps": 1,
}
_KEYS = {*_DEFAULTS, "std", "clip", "rounds", "stated"}


def read(path: pathlib.Path, facts: Facts) -> list[Noise]:
    """The one noise of the file.

    Raises:
      ValueError: the file is unreadable, or a setting is unknown, missing or wrong.
    """
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML that can be read: {error}") from error
    content |= facts.overrides
    claim = content.get("stated", {})
    if not isinstance(claim, dict):
        raise ValueError(f"{path}: stated must be a table")
    unknown = ({*content} - _KEYS) | (
        {*claim} - {"epsilon", "delta", "per", "relation"}
    )
    if unknown:
        raise ValueError(f"{path} has unknown settings: {', '.join(sorted(unknown))}")
    for name, allowed in _NAMES.items():
        value = (content | claim).get(name, allowed[0])
        if value not in allowed:
            words = " or ".join(allowed)
            raise ValueError(f"{path}: {name} must be {words}, got {value!r}")
    settings, stated = Component("", path.name, _DEFAULTS | content), None
    kind, by = settings.values["noise"], settings.values["added_by"]
    std, clip = (settings.number(name, above=0) for name in ("std", "clip"))
    rate = settings.number("sampling_rate", above=0, at_most=1)
    laplace = kind == "laplace"
    if laplace and rate < 1:
        raise ValueError(f"{path}: sampling_rate must be 1 with laplace")
    if rate < 1 and by == settings.values["unit"] == "client":
        raise ValueError(
            f"{path}: sampling_rate must be 1 with unit and added_by client, since the "
            "server sees who uploads"
        )
    if claim:
        goal = Component("", f"stated in {path.name}", claim)
        delta = 0.0 if laplace else goal.number("delta", above=0)
        per = claim.get("per", "run")
        stated = Stated(goal.number("epsilon", above=0), delta, per)
    steps = settings.count("steps")
    rounds = settings.count("rounds") if "rounds" in content else None
    relation = claim.get("relation", "zero_out")
    sensitivity = clip if relation == "zero_out" else 2 * clip
    place = "every upload" if by == "client" else "the sum of a cohort's parts"
    return [
        Noise(
            source=path.name,
            text=f"{kind} noise of {'scale' if laplace else 'std'} {std:g} on {place}, "
            f"clipped to {clip:g}; {steps} a round",
            std=std,
            multiplier=std / clip,
            view="server" if by == "client" else "observer",
            unit=settings.values["unit"],
            relation=relation,
            pure=steps * sensitivity / std if laplace else None,
            stated=stated,
            steps=steps,
            rate=rate,
            rounds=rounds,
            setting=None if laplace else Setting("std", clip),
            assumptions=("the file says what the program does", "nothing else leaves"),
        )
    ]
