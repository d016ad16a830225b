"""Demo: compares FedAvg, FedSDP and FedSVA on scikit-learn's digits with three seeds.

  fedsvp demo

This is `fedsvp sweep --preset=demo --output_dir=runs/demo`. Any flag of the sweep may
be added and overrides the preset; --num_rounds=2 --seeds=0:1 makes the demo short.
"""

from absl import flags

from . import command, presets, sweep


def main() -> None:
    """Runs the sweep; the preset gives its flags their defaults."""
    defaults = presets.read_preset("sweep", "demo").flags | {"output_dir": "runs/demo"}
    command.default_settings(flags.FLAGS, defaults)
    command.run(sweep.main, __doc__)


if __name__ == "__main__":
    main()
