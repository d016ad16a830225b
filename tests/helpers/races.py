"""Races of two copies of a site, each in a process of its own."""

from pathlib import Path
from typing import Any

from deployed import UPDATE_CLIP, policy, sent

from fedsvp_jax.deploy import Refused, Site


def run(folder: Path, copy: str, races: int, barrier: Any, answers: Any) -> None:
    """Puts a list into `answers`: of each race True, or why nothing was sent."""
    made, ends = policy(**UPDATE_CLIP), []
    for number in range(races):
        place = folder / str(number)
        site = Site(place / copy / "log", made, witness=place / "elsewhere")
        with site.opened():
            barrier.wait(600)
            try:
                sent(site, 1)
                ends.append(True)
            except Refused as refusal:
                ends.append(str(refusal))
    answers.put(ends)
