"""A TOML file of one's settings, for any other program.

noise = "gaussian"       # or "laplace"
std = 0.5                # of a coordinate (b of a Laplace noise)
clip = 1.0               # L2 norm of what is noised (L1 with Laplace)
added_by = "client"      # or "server", to the sum of the clients' parts
unit = "client"          # or "record"
rounds = 20
steps = 1                # noised sums in a round
sampling_rate = 1.0      # of Poisson batches
epsilon = 8.0            # stated
delta = 1e-5
population_size = 5000   # clients, or records where they are the unit: δ < 1/5000
per = "run"              # or "upload"
relation = "zero_out"    # one part against zero; or "replace_one"
"""

import pathlib
import tomllib

from fedsvp_jax.core.files import Record, toml_beside

from .components import Component
from .noise import Noise, Setting, Stated

_KNOWN = toml_beside(__file__, "engines.toml")["settings_file"]


def read(path: pathlib.Path) -> list[Noise]:
    """The one noise of the file.

    Raises:
      ValueError: the file is unreadable, or a setting is unknown, missing or wrong.
    """
    try:
        content: Record = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML that can be read: {error}") from error
    if unknown := {*content} - {*_KNOWN["words"], *_KNOWN["numbers"]}:
        raise ValueError(f"{path} has unknown settings: {', '.join(sorted(unknown))}")
    words = {}
    for name, allowed in _KNOWN["words"].items():
        word = words[name] = content.get(name, allowed[0])
        if word not in allowed:
            raise ValueError(
                f"{path}: {name} must be {' or '.join(allowed)}, got {word!r}"
            )
    settings = Component(path.name, {"sampling_rate": 1.0, "steps": 1} | content)
    std, clip = (settings.number(name, above=0) for name in ("std", "clip"))
    rate = settings.number("sampling_rate", above=0, at_most=1)
    laplace, by_client = words["noise"] == "laplace", words["added_by"] == "client"
    if laplace and rate < 1:
        raise ValueError(f"{path}: sampling_rate must be 1 with laplace")
    if rate < 1 and by_client and words["unit"] == "client":
        raise ValueError(
            f"{path}: sampling_rate must be 1 with unit and added_by client, since the "
            "server sees who uploads"
        )
    stated = None
    if "epsilon" in content:
        epsilon = settings.number("epsilon", above=0)
        delta = 0.0 if laplace else settings.number("delta", above=0)
        stated = Stated(epsilon, delta, words["per"], content.get("population_size"))
    steps = settings.count("steps")
    sensitivity = clip if words["relation"] == "zero_out" else 2 * clip
    assumptions = ["the file says what the program does", "nothing else leaves"]
    if rate < 1:
        assumptions.append("each batch draws every record by itself, in secret")
    place = "every upload" if by_client else "the sum of a cohort's parts"
    return [
        Noise(
            source=path.name,
            text=f"{words['noise']} noise of {'scale' if laplace else 'std'} {std:g} "
            f"on {place}, clipped to {clip:g}; {steps} a round",
            std=std,
            multiplier=std / clip,
            view="server" if by_client else "observer",
            unit=words["unit"],
            relation=words["relation"],
            pure=steps * sensitivity / std if laplace else None,
            stated=stated,
            steps=steps,
            rate=rate,
            rounds=settings.count("rounds") if "rounds" in content else None,
            setting=None if laplace else Setting("std", clip),
            assumptions=tuple(assumptions),
        )
    ]
