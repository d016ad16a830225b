"""A TOML file of one's own, for any other program.

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

from fedsvp_jax.check.made import finite, whole
from fedsvp_jax.check.noise import RELATIONS, Facts, Noise, Setting, Stated

_NAMES = {
    "noise": ("gaussian", "laplace"),
    "added_by": ("client", "server"),
    "unit": ("client", "record"),
    "per": ("run", "upload"),
    "relation": RELATIONS,
}
_OWN = {"noise", "std", "clip", "added_by", "unit", "rounds", "steps"}
_OWN |= {"sampling_rate", "stated"}


def read(path: pathlib.Path, facts: Facts) -> list[Noise]:
    """The one noise of the file.

    Raises:
      ValueError: the file is unreadable, or a setting is unknown, missing or wrong.
    """
    try:
        told: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML that can be read: {error}") from error
    told |= facts.overrides
    claim = told.get("stated", {})
    if not isinstance(claim, dict):
        raise ValueError(f"{path}: stated must be a table")
    unknown = ({*told} - _OWN) | ({*claim} - {"epsilon", "delta", "per", "relation"})
    if unknown:
        raise ValueError(f"{path} has unknown settings: {', '.join(sorted(unknown))}")

    def number(table: dict[str, Any], name: str, default: float | None = None) -> float:
        return finite(path.name, name, table.get(name, default), above=0)

    def word(table: dict[str, Any], name: str, default: str) -> str:
        value = table.get(name, default)
        if not isinstance(value, str) or value not in _NAMES[name]:
            allowed = " or ".join(_NAMES[name])
            raise ValueError(f"{path}: {name} must be {allowed}, got {value!r}")
        return str(value)

    kind, by = word(told, "noise", "gaussian"), word(told, "added_by", "client")
    std, clip = number(told, "std"), number(told, "clip")
    rate = number(told, "sampling_rate", 1.0)
    rounds = whole(path.name, "rounds", told["rounds"]) if "rounds" in told else None
    laplace = kind == "laplace"
    if rate > 1 or (laplace and rate < 1):
        raise ValueError(f"{path}: sampling_rate must be at most 1, and 1 with laplace")
    stated = None
    if claim:
        delta = 0.0 if laplace else number(claim, "delta")
        stated = Stated(number(claim, "epsilon"), delta, word(claim, "per", "run"))
    steps = whole(path.name, "steps", told.get("steps", 1))
    relation = word(claim, "relation", "zero_out")
    moved = clip if relation == "zero_out" else 2 * clip
    what = "every upload" if by == "client" else "the sum of a cohort's parts"
    return [
        Noise(
            source=path.name,
            text=f"{kind} noise of {'scale' if laplace else 'std'} {std:g} on {what}, "
            f"clipped to {clip:g}; {steps} a round",
            std=std,
            multiplier=std / clip,
            view="server" if by == "client" else "observer",
            unit=word(told, "unit", "client"),
            relation=relation,
            pure=steps * moved / std if laplace else None,
            stated=stated,
            steps=steps,
            rate=rate,
            rounds=rounds,
            setting=None if laplace else Setting("std", std, clip),
            assumptions=("the file says what the program does", "nothing else leaves"),
        )
    ]
