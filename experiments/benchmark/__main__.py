"""Times the library's rounds; prints one JSON line per row to standard output.

  make bench
  python -m experiments.benchmark | tee docs/results/bench.jsonl
  python -m experiments.benchmark --works=W1,PE-W2 --rounds=3
  python -m experiments.benchmark --device=gpu --works=all > bench_gpu.jsonl

Workloads (synthetic images; the sizes are those used for the other libraries):
  W1     LEAF CNN, 6.6 M parameters: 10 of 100 clients per round, 200 images of 28x28
         each, 2 epochs, batch size 50, SGD with step size 0.1, FedAvg.
  W1-DP  W1 with clipped updates and Gaussian noise (dp_fedavg).
  W2     small CNN on 8x8 images, 14 per client, batch size 7: overhead dominates.
  W3     ResNet-18 with GroupNorm, 10 clients of 50 images of 32x32x3, 1 epoch.
  W3-BF16  W3 with products in bfloat16 (--compute_dtype).
  PE-W1  W1 with FedSVA at N = 2, 3, 4, 5 attributes, and with --shapley=additive at
         N = 5 and 16, after one row of FedAvg, all with FedSVA's gradient clip. 3
         clients per round, to save time.
  PE-W2  W2 in the same way up to N = 5, with 10 clients per round.
  SWEEP  FedSVA on digits, 5 epsilons x 5 seeds, as one program and one of them alone.

Every row is measured in a process of its own, so that its peak memory and compile time
are its own. Programs are compiled anew unless JAX_COMPILATION_CACHE_DIR names a folder
that keeps them; a second run with it shows the compile time of a warm start.
docs/results/performance.md explains the JSON keys. Run it on a quiet machine: it uses
all cores, and other work on them changes the numbers.

Exit status: 0 done; 2 bad input; 1 a workload failed (its error is on standard error).
"""

import json
import os

from absl import flags

from fedsvp_jax.devices import cpu

from .. import command
from . import measure, workloads

command.define("benchmark")


def main(_: list[str]) -> None:
    """Times the chosen workloads."""
    values = flags.FLAGS
    names = list(dict.fromkeys(values.works))
    if names == ["all"]:
        names = list(workloads.NAMES)
    if not names or set(names) - set(workloads.NAMES):
        raise ValueError(
            f"works must be all, or some of {', '.join(workloads.NAMES)}, got "
            f"{','.join(names)!r}"
        )
    if values.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(cpu.threads()))  # as `train`
    for name in names:
        for index in range(len(workloads.of_name(name))):
            row = workloads.in_new_process(
                measure.measure, name, index, values.device, values.rounds
            )
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    command.run(main, __doc__)
