"""A federation of three hospitals in one process, each with a loop of its own in NumPy.

  for n in 1 2 3; do
    fedsvp site init --log=sites/hospital-$n --witness=sites/witness-$n \
        --num_examples=300 --min_num_examples=100 --mechanism=gaussian \
        --clipping=update_clip --relation=add_remove --l2_norm_clip=1 \
        --num_rounds=5 --total_epsilon=8 --solve=noise --delta=1e-6
  done
  python examples/private_round.py sites
  fedsvp ledger sites/hospital-1 --witness=sites/witness-1

A second start is refused, since each log has answered its rounds. The noise of an
upload is made for ε = 8 of a hospital with all of its records, so three of them average
to noise: this shows the calls. `train` may be any library's.
"""

import pathlib
import sys

import numpy as np

from fedsvp_jax.deploy import Site, private_round

ROUNDS, RATE = 5, 0.5
WEIGHTS = np.array([1.0, -2.0, 0.5], np.float32)  # which made the records


def records(hospital: int) -> tuple[np.ndarray, np.ndarray]:
    """300 records of a hospital: (300, 3) measurements and (300,) answers, 0 or 1."""
    rng = np.random.default_rng(hospital)
    inputs = rng.normal(size=(300, 3)).astype(np.float32)
    return inputs, (inputs @ WEIGHTS > 0).astype(np.float32)


def train(weights: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights after 20 steps of logistic regression on one hospital's records."""
    for _ in range(20):
        errors = 1 / (1 + np.exp(-inputs @ weights)) - labels
        weights = weights - RATE * inputs.T @ errors / len(labels)
    return weights


def main(folder: pathlib.Path) -> None:
    """Averages the hospitals' uploads, round by round."""
    hospitals = {
        Site(folder / f"hospital-{n}", witness=folder / f"witness-{n}"): records(n)
        for n in (1, 2, 3)
    }
    weights = np.zeros(3, np.float32)
    for round_num in range(1, ROUNDS + 1):
        uploads = []
        for site, (inputs, labels) in hospitals.items():
            with private_round(site, [weights], round_num=round_num) as private:
                uploads += private([train(weights, inputs, labels)])
        weights = np.mean(uploads, axis=0)
        print(f"round {round_num}: weights {np.round(weights, 2)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the folder of the three sites: private_round.py sites")
    main(pathlib.Path(sys.argv[1]))
