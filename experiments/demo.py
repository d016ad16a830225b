"""Demo: compares FedAvg, FedSDP and FedSVA on scikit-learn's digits with three seeds.

  fedsvp demo

This is `fedsvp sweep` with presets/demo.flags and --output_dir=runs/demo. Any flag
of the sweep may be added and overrides the preset; --num_rounds=2 --seeds=0:1 makes the
demo short.
"""

from absl import flags

from . import command, presets, sweep

OUTPUT_DIR = "runs/demo"


def main() -> None:
    """Runs the sweep; the preset gives its flags their defaults."""
    preset = presets.read_preset("sweep", "demo")
    for name, value in [*preset.flags.items(), ("output_dir", OUTPUT_DIR)]:
        flags.FLAGS.set_default(name, value)
    command.run(sweep.main, __doc__)


if __name__ == "__main__":
    main()
