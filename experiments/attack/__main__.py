"""Attacks that measure what an adversary learns from a federated run.

The manual of each attack below says what its adversary sees.

  fedsvp attack --attack=membership --dataset=digits \\
      --output_dir=runs/membership

Written to --output_dir: config.json, pieces/ (one file per finished piece of the work,
from which --resume continues), results.json, and the attack's pictures.
"""

from absl import flags

from fedsvp_jax.core.files import write_json
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder

from .. import command, provenance
from . import audit, gradient_inversion, membership, reconstruction
from .work import finished_or_made

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
    attack = ATTACKS[values.attack]
    command.default_settings(values, attack.DEFAULTS)
    config = command.settings_from_flags(values)
    command.start_jax()
    work = attack.prepare(values, config)
    stamp = provenance.stamp(work.data, config.seed)  # before the code here can change
    own_flags = values.flags_by_module_dict()[attack.__name__]
    chosen = {flag.name: flag.value for flag in own_flags} | {"attack": values.attack}
    folder = RunFolder(values.output_dir)
    folder.start(environment() | chosen | {**work.settings}, resume=values.resume)
    finished = {
        name: finished_or_made(folder, name, make)
        for name, make in progress_bar(work.pieces.items(), unit="piece", disable=None)
    }
    results = work.finish(finished, folder.path)
    write_json(
        folder.path / "results.json",
        {"attack": values.attack} | results | {"provenance": stamp},
    )
    command.print_files(path for path in sorted(folder.path.iterdir()) if path.suffix)


def manual() -> str:
    """The text of --help: the common manual, then the manual of each attack."""
    manuals = [f"--attack={name}\n{attack.__doc__}" for name, attack in ATTACKS.items()]
    return "\n".join([str(__doc__), *manuals])


if __name__ == "__main__":
    command.run(main, manual())
