"""Says which ε follows from somebody else's privacy settings; none of it is run.

  fedsvp check flare config_fed_client.json --rounds=20
  fedsvp check toml dp.toml

The file is FLARE's config_fed_client.json, or a TOML file whose settings docs/check.md
lists. Every noise is printed with its claims, against whom, for which neighbours,
proved or nominal, and what they rest on. Where an ε is stated and does not follow, the
least change that makes it true is named.

Flower and Opacus have no such file. In your program, which has their objects,
three lines ask these (docs/check.md names the arguments of each):

  from fedsvp_jax import check
  (noise,) = check.opacus.live(optimizer, loader, accountant=engine.accountant)
  print(check.table(noise, delta=1e-5, rounds=None))

Exit status: 0 every stated ε follows, proved; 1 one does not, or is nominal, or nothing
adds noise; 2 bad input (one line says why).
"""

import dataclasses
import pathlib
import sys

from absl import flags

from . import command

command.define("check")


def main(arguments: list[str]) -> None:
    """Prints the claims of every noise, and ends with 1 where one is not reached."""
    from fedsvp_jax import check

    if len(arguments) != 3 or arguments[1] not in ("flare", "toml"):
        raise ValueError(
            "name one of flare, toml, and one file; objects of others are asked in "
            "Python, by fedsvp_jax.check (docs/check.md)"
        )
    values, path = flags.FLAGS, pathlib.Path(arguments[2])
    if arguments[1] == "flare":
        noises = check.flare.read(path, values.parameters)
    else:
        noises = check.settings_file.read(path)
    if not noises:
        raise ValueError(f"{path}: nothing that is known adds noise there")
    reached = True
    for noise in noises:
        rounds = values.rounds or noise.rounds
        stated = [noise.stated] if noise.stated else []
        delta = values.delta or getattr(noise.stated, "delta", 0) or 1e-5
        if values.epsilon is not None:
            stated.append(check.Stated(values.epsilon, delta, "run"))
        if size := values.population_size:
            stated = [dataclasses.replace(s, population_size=size) for s in stated]
        verdicts = [check.verdict(noise, statement, rounds) for statement in stated]
        print(check.table(noise, delta, rounds), *verdicts, sep="\n")
        reached &= all(verdict.reached for verdict in verdicts)
    if not reached or not any(noise.std for noise in noises):
        sys.exit(1)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
