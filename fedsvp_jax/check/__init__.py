"""Checks of other programs' privacy settings: `fedsvp check`.

Noise, claims, table, verdict           noise.py   one calculation for all
flower.live, opacus.live                of objects in the user's own program
flare.read, settings_file.read          of files
"""

from . import flare, flower, opacus, settings_file
from .noise import Stated, claims, table, verdict

__all__ = [
    "Stated",
    "claims",
    "flare",
    "flower",
    "opacus",
    "settings_file",
    "table",
    "verdict",
]
