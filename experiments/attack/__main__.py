"""Attacks that measure what an adversary learns from a federated run.

The manual of each attack below says first what its adversary sees and knows.

  fedsvp attack --attack=membership --dataset=digits \\
      --output_dir=runs/membership
  fedsvp attack --attack=membership --run=runs/a --output_dir=runs/a_attacked

Written to --output_dir: config.json, pieces/ (one file per finished piece of the work,
from which --resume continues), results.json, table.csv (the printed table in numbers),
and the attack's pictures.
"""

import sys

from absl import flags

from fedsvp_jax.core.files import read_json, write_json
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder

from .. import command, config_file, flag_values, provenance
from . import SETTINGS, audit, gradient_inversion, membership, reconstruction

ATTACKS = {
    "acgan": reconstruction,
    "gradient_inversion": gradient_inversion,
    "audit": audit,
    "membership": membership,
}

command.define_settings()
command.define_output()
flags.DEFINE_enum("attack", "audit", list(ATTACKS), "The attack to run.")
command.define("attack")
for attack, module in ATTACKS.items():
    command.define("flags", SETTINGS[attack], module_name=module.__name__)


def main(_: list[str]) -> None:
    """Runs the chosen attack."""
    values = flags.FLAGS
    settings = SETTINGS[values.attack]
    command.default_settings(values, settings["defaults"])
    for why, names in settings["refused"].items():
        flag_values.refuse_flags(values, names, why)
    config = command.settings_from_flags(values)
    command.start_jax()
    module = ATTACKS[values.attack]
    work = module.prepare(values, config)
    stamp = provenance.stamp(work.data, config.seed)  # before the code here can change
    chosen = {
        name: values[name].value for name in ("attack", "run", *settings["flags"])
    }
    folder = RunFolder(values.output_dir)
    folder.start(environment() | chosen | work.settings, resume=values.resume)
    pieces = folder.path / "pieces"
    pieces.mkdir(exist_ok=True)
    finished, bar = {}, progress_bar(total=len(work.pieces), unit="piece")
    for name, make in work.pieces.items():
        file = pieces / f"{name}.json"
        if not file.exists():
            write_json(file, make())
        try:
            finished[name] = read_json(file)
        except ValueError as error:
            raise ValueError(f"{error}: remove it and run with --resume") from None
        bar.update()
    bar.close()
    results = work.finish(finished, folder.path)
    print("\n" + str(module.__doc__).split("\n\n")[1])  # what its adversary sees
    write_json(
        folder.path / "results.json",
        {"attack": values.attack} | results | {"provenance": stamp},
    )
    command.print_folder(folder.path)


def manual() -> str:
    """The text of --help: the common manual, then the manual of each attack."""
    manuals = [f"--attack={name}\n{attack.__doc__}" for name, attack in ATTACKS.items()]
    return "\n".join([str(__doc__), *manuals])


if __name__ == "__main__":
    if run := config_file.early_value(sys.argv, "run"):
        sys.argv.insert(1, f"--config={run}/config.json")
    command.run(main, manual())
