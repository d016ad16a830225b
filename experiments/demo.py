"""The demo: FedAvg, FedSDP and FedSVA on scikit-learn's digits, three seeds.

  python -m experiments.demo            # in the repository
  fedsvp_jax-demo                       # where the package is installed

This is experiments.sweep with presets/demo.flags, written to runs/demo unless
--output_dir says otherwise; any other flag of the sweep may be added, and
--num_rounds=2 --seeds=0:1 makes it short.
"""

import sys

from . import command, presets, sweep

OUTPUT_DIR = "runs/demo"


def main() -> None:
    """Runs the sweep; what the command line says comes after the preset, and wins."""
    preset = presets.FOLDER / "demo.flags"
    sys.argv[1:1] = [f"--flagfile={preset}", f"--output_dir={OUTPUT_DIR}"]
    command.run(sweep.main, __doc__)


if __name__ == "__main__":
    main()
