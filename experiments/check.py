"""Says which ε follows from somebody else's privacy settings; none of it is run.

  fedsvp check flare config_fed_client.json --rounds=20
  fedsvp check toml dp.toml
  fedsvp check flower pyproject.toml
  fedsvp check opacus client.py
  fedsvp check pfl train.py

FILE is FLARE's config_fed_client.json; a TOML file whose settings docs/check.md lists;
a Flower app's pyproject.toml; or a Python file of Flower, Opacus or pfl. Every noise is
printed with its claims, against whom, for which neighbours, proved or nominal, and what
they rest on. Where an ε is stated and does not follow, the least change that makes it
true is named. From a Python file no ε follows: its statements that name the engine are
listed. In the program itself, fedsvp_jax.check asks the engine's own objects
(docs/check.md).

Exit status: 0 every stated ε follows; 1 one does not; 2 bad input (one line says why);
3 something is not understood, as in every Python file.
"""

import json
import pathlib
import sys
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
_SET = flags.DEFINE_multi_string(
    "set", [], "NAME=NUMBER: the value of an argument, instead of the file's."
)
_JSON = flags.DEFINE_bool("json", False, "Print JSON.")
_PARAMETERS = flags.DEFINE_integer(
    "parameters", None, "Numbers in the model.", lower_bound=1
)


def main(arguments: list[str]) -> None:
    """Prints the claims of every noise, and ends with 1 where one is not reached."""
    from fedsvp_jax import check
    from fedsvp_jax.core.files import plain

    if len(arguments) != 3 or arguments[1] not in check.READERS:
        raise ValueError(f"name one of {', '.join(check.READERS)}, and one file")
    path = pathlib.Path(arguments[2])
    facts = check.Facts(overrides=_overrides(_SET.value), parameters=_PARAMETERS.value)
    noises = check.READERS[arguments[1]](path, facts)
    if not noises:
        raise ValueError(f"{path}: nothing that is known adds noise there")
    results = [_result(noise) for noise in noises]
    lines = dict.fromkeys(line for noise in noises for line in noise.not_understood)
    if _JSON.value:
        print(json.dumps(plain(results), indent=2, allow_nan=False))
    else:
        print(messages.filled("check.txt", results=results, not_understood=lines))
    if not all(stated["reached"] for result in results for stated in result["stated"]):
        sys.exit(1)
    if lines:
        sys.exit(3)


def _overrides(items: list[str]) -> dict[str, float]:
    overrides = {}
    for item in items:
        name, _, value = item.partition("=")
        try:
            overrides[name] = float(value)
        except ValueError:
            raise ValueError(f"--set must be NAME=NUMBER, got {item!r}") from None
    return overrides


def _result(noise: Any) -> dict[str, Any]:
    """The printed facts of one noise, by their JSON keys."""
    from fedsvp_jax import check

    rounds = _ROUNDS.value or noise.rounds
    stated = [noise.stated] if noise.stated else []
    delta = _DELTA.value or (stated[0].delta if stated else 0) or 1e-5
    if _EPSILON.value is not None:
        stated.append(check.Stated(_EPSILON.value, delta, "run"))
    verdicts = [check.verdict(noise, statement, rounds) for statement in stated]
    return {
        "source": noise.source,
        "noise": noise.text,
        "std": noise.std,
        "claims": [
            {
                "adversary": row.adversary,
                "relation": row.relation,
                "of": row.method,
                "epsilon": row.epsilon,
                "delta": row.delta,
                "status": row.status,
            }
            for row in check.claims(noise, delta, rounds)
        ],
        "assumptions": noise.assumptions,
        "nominal_because": noise.flaws,
        "not_understood": noise.not_understood,
        "stated": [
            verdict.stated._asdict()
            | {
                "relation": verdict.relation,
                "follows": verdict.epsilon,
                "reached": verdict.reached,
                **_change(noise, verdict.needed),
            }
            for verdict in verdicts
        ],
    }


def _change(noise: Any, needed: float | None) -> dict[str, Any]:
    """The setting whose least change makes a stated ε true; of None where none does."""
    if needed is None:
        return {"change": None, "from": None, "to": None}
    setting = noise.setting
    now = setting.per_multiplier * noise.multiplier
    return {"change": setting.name, "from": now, "to": needed}


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
