"""Times the library's rounds; one JSON line a work, on standard output.

  make bench
  python -m experiments.benchmark | tee docs/results/bench.jsonl
  python -m experiments.benchmark --works=W1,PE-W2 --rounds=3 --device=gpu

Works (images are synthetic, the sizes are those of the peers' scripts):
  W1     LEAF CNN, 6.6 M parameters: 10 of 100 clients a round, 200 images of 28x28,
         2 epochs, batch 50, SGD 0.1, FedAvg.
  W1-DP  the same, update clipped and Gaussian noise added (dp_fedavg).
  W2     small CNN on 8x8 images, 14 a client, batch 7: overhead dominates.
  W3     ResNet-18 with GroupNorm, 10 clients of 50 images of 32x32x3, 1 epoch.
  PE-W1  W1 with FedSVA at N = 2, 3, 4, 5 attributes, after a row of FedAvg, both with
         FedSVA's gradient clip; 3 clients a round, for time.
  PE-W2  the same of W2, with 10 clients a round.
  SWEEP  FedSVA on digits, 5 epsilons x 5 seeds as one program and as 25 runs.

Every row comes from a process of its own, so that its peak memory and its compile
time are its own; compilation is cold unless --compilation_cache_dir is given.
docs/performance.md says what each key means. Run it on a quiet machine: it uses
all cores, and anything else that runs is measured with it.

Exit status: 0 done; 2 bad input; 1 a work failed, its error on standard error.
"""

import os
import subprocess
import sys

from absl import flags

from .. import command
from . import works

flags.DEFINE_list("works", list(works.NAMES), "Names from the list above.")
flags.DEFINE_enum(
    "device",
    None,
    ["cpu", "gpu"],
    "Where the rounds run. Default: what JAX finds, a GPU first.",
)
flags.DEFINE_integer(
    "rounds",
    5,
    "Timed samples a row, a round each (W2: 20 rounds, PE-W2: 10, in one call), after "
    "one that warms up. W3 and PE-W1 take 2 at most.",
    lower_bound=1,
)
flags.DEFINE_string(
    "compilation_cache_dir",
    "",
    "Folder that keeps compiled programs: a second run with it shows the compile "
    "time of a warm start.",
)


def _run(name: str, index: int, device: str, rounds: int, cache_dir: str) -> int:
    """One row in a process of its own; its exit status."""
    environment = dict(os.environ)
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    if device == "cpu":
        environment["JAX_PLATFORMS"] = "cpu"
    arguments = [name, str(index), device, str(rounds), cache_dir]
    command = [sys.executable, "-m", f"{__package__}.measure", *arguments]
    return subprocess.run(command, env=environment).returncode


def main(_: list[str]) -> None:
    """Runs the works that the flags name."""
    values = flags.FLAGS
    names = list(dict.fromkeys(values.works))
    if not names or set(names) - set(works.NAMES):
        raise ValueError(
            f"works must be some of {', '.join(works.NAMES)}, got {','.join(names)!r}"
        )
    device = values.device or ""
    for name in names:
        for index in range(max(1, len(works.find(name)))):
            if _run(name, index, device, values.rounds, values.compilation_cache_dir):
                sys.exit(1)


if __name__ == "__main__":
    command.run(main, __doc__)
