"""Says which ε follows from somebody else's privacy settings; none of it is run.

  fedsvp check flare config_fed_client.json --rounds=20
  fedsvp check toml dp.toml

FILE is FLARE's config_fed_client.json, or a TOML file whose settings docs/check.md
lists. Every noise is printed with its claims, against whom, for which neighbours,
proved or nominal, and what they rest on. Where an ε is stated and does not follow, the
least change that makes it true is named. In the program itself, fedsvp_jax.check asks
the engine's own objects, of Flower, FLARE, Opacus, pfl or jax_privacy (docs/check.md).

Exit status: 0 every stated ε follows, proved; 1 one does not, or is nominal; 2 bad
input (one line says why).
"""

import functools
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from absl import flags

from . import command, messages

_ROUNDS = flags.DEFINE_integer(
    "rounds", None, "Rounds that a client takes part in.", lower_bound=1
)
_EPSILON = flags.DEFINE_float(
    "epsilon", None, "Stated ε of the whole run, besides what the file states."
)
_DELTA = flags.DEFINE_float(
    "delta", None, "δ of all rows. Default: the stated one, else 1e-5."
)
_PARAMETERS = flags.DEFINE_integer(
    "parameters", None, "Numbers in the model, with flare.", lower_bound=1
)


def main(arguments: list[str]) -> None:
    """Prints the claims of every noise, and ends with 1 where one is not reached."""
    from fedsvp_jax import check

    readers: dict[str, Callable[[pathlib.Path], Any]] = {
        "flare": functools.partial(check.flare.read, parameters=_PARAMETERS.value),
        "toml": check.settings_file.read,
    }
    if len(arguments) != 3 or arguments[1] not in readers:
        raise ValueError(
            "name one of flare, toml, and one file; objects of others are asked in "
            "Python, by fedsvp_jax.check (docs/check.md)"
        )
    path = pathlib.Path(arguments[2])
    noises = readers[arguments[1]](path)
    if not noises:
        raise ValueError(f"{path}: nothing that is known adds noise there")
    if not all([_show(noise) for noise in noises]):
        sys.exit(1)


def _show(noise: Any) -> bool:
    """Prints what follows from a noise; whether every ε that is stated does."""
    from fedsvp_jax import check

    rounds = _ROUNDS.value or noise.rounds
    stated = [noise.stated] if noise.stated else []
    delta = _DELTA.value or (stated[0].delta if stated else 0) or 1e-5
    if _EPSILON.value is not None:
        stated.append(check.Stated(_EPSILON.value, delta, "run"))
    verdicts = [check.verdict(noise, statement, rounds) for statement in stated]
    text = messages.filled(
        "check.txt",
        noise=noise,
        claims=check.claims(noise, delta, rounds),
        verdicts=verdicts,
    )
    print(text)
    return all(verdict.reached for verdict in verdicts)


if __name__ == "__main__":
    if {"flower", "jax_privacy", "opacus", "pfl"} & {*sys.argv[1:2]}:
        del sys.argv[2:]  # also --help, of files alone
    command.run(main, __doc__, takes_arguments=True)
