"""Attacks that measure what an adversary learns from a federated run.

The manual of each attack below says what its adversary sees.

  python -m experiments.attack --attack=membership --dataset=digits \\
      --output_dir=runs/membership
"""

import json
import pathlib

from absl import flags

from fedsvp_jax.core.files import write_json

from .. import command, provenance
from . import (
    audit,
    gradient_inversion,
    membership,
    reconstruction,
)

ATTACKS = {
    "acgan": reconstruction,
    "gradient_inversion": gradient_inversion,
    "audit": audit,
    "membership": membership,
}

command.define_settings()
command.define_output()
flags.DEFINE_enum("attack", "audit", list(ATTACKS), "The attack to run.")
for attack in ATTACKS.values():
    attack.define_flags()


def main(_: list[str]) -> None:
    """Runs the chosen attack."""
    values = flags.FLAGS
    chosen = ATTACKS[values.attack]
    command.default_settings(values, chosen.DEFAULTS)
    config = command.settings_from_flags(values)
    command.start_jax(values)
    stamp = provenance.stamp_of_run(config)  # before the code here can change
    chosen.run(values, config)
    results = pathlib.Path(values.output_dir) / "results.json"
    write_json(results, json.loads(results.read_text()) | {"provenance": stamp})


def manual() -> str:
    """The text of --help: the common manual, then the manual of each attack."""
    manuals = [f"--attack={name}\n{attack.__doc__}" for name, attack in ATTACKS.items()]
    return "\n".join([str(__doc__), *manuals])


if __name__ == "__main__":
    command.run(main, manual())
