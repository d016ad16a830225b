"""Checks of other programs' privacy settings: `fedsvp check`.

Noise, claims, verdict       noise.py   one calculation for all
flower.live, flare.live, opacus.live, pfl.live, jax_privacy.live
                                        of objects in the user's own program
READERS                                 by engine: (file, Facts) -> [Noise]
"""

import pathlib
from collections.abc import Callable, Mapping

from fedsvp_jax.check import flare, flower, jax_privacy, opacus, pfl, settings_file
from fedsvp_jax.check.components import statements
from fedsvp_jax.check.noise import (
    Facts,
    Noise,
    Stated,
    claims,
    epsilon,
    marked,
    verdict,
)


def _text_of(package: str) -> Callable[[pathlib.Path, Facts], list[Noise]]:
    """Lists what a Python file names of an engine; nothing of it is understood."""
    return lambda path, _: marked([], path.name, statements(path, package))


READERS: Mapping[str, Callable[[pathlib.Path, Facts], list[Noise]]] = {
    "flower": flower.read,
    "flare": flare.read,
    "opacus": _text_of("opacus"),
    "pfl": _text_of("pfl"),
    "toml": settings_file.read,
}

__all__ = [
    "READERS",
    "Facts",
    "Noise",
    "Stated",
    "claims",
    "epsilon",
    "flare",
    "flower",
    "jax_privacy",
    "opacus",
    "pfl",
    "verdict",
]
