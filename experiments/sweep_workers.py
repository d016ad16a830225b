"""One sweep on the cores of one machine: parts in processes of their own, then joined.

A worker is the sweep's own command with --part=I/N, so the joined folder has the bytes
that one process writes, but for timing.jsonl and the checkpoints, of which it has none.
The parts' folders lie in OUTPUT_DIR.parts until all are done.
"""

import pathlib
import shutil
import subprocess
import sys
import time

from absl import flags

from fedsvp_jax.devices import cpu, target
from fedsvp_jax.run import parts, sweep

_LEAST_ROUNDS = 1000  # of all cells; each worker compiles anew, some twenty seconds
_SECONDS = 0.5  # between two looks at the workers


def number(values: flags.FlagValues, plan: sweep.SweepPlan, rounds: int) -> int:
    """The number of workers: --sweep_workers, else one per core where that pays.

    The default is 1 on anything but a CPU, for one part of a sweep, with several
    devices, for loggers (one process writes each), and with --total_epsilon, whose
    waiting cells have rows that parts lack (docs/sweeps.md).

    Raises:
      ValueError: workers are asked for beside one of these.
    """
    conflicts = {
        "part": plan.part is not None,
        "sweep_devices": values.sweep_devices > 1,
        "num_devices": values.num_devices > 1,
        "logger": bool(values.logger),
        "total_epsilon": values.total_epsilon is not None,
    }
    used = [name for name, is_used in conflicts.items() if is_used]
    if values.sweep_workers is not None:
        if values.sweep_workers > 1 and used:
            raise ValueError(f"sweep_workers must be 1 with {used[0]}")
        return int(values.sweep_workers)
    begun = (pathlib.Path(values.output_dir) / "config.json").exists()
    is_cpu = target.current_target().platform == "cpu"
    if used or begun or rounds < _LEAST_ROUNDS or not is_cpu:
        return 1
    return cpu.threads()


def run(output_dir: pathlib.Path, workers: int, *, resume: bool) -> None:
    """Runs this process's own command in parts, and joins their folders.

    The first part's messages and progress are shown, those of the others are in their
    log files.

    Raises:
      ValueError: a part has failed, or its folder is there without `resume`.
    """
    folder = output_dir.with_name(f"{output_dir.name}.parts")
    if folder.exists() and not resume:
        raise ValueError(
            f"{folder} holds parts of a sweep that has not ended; go on with --resume, "
            "or remove it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    places = [folder / f"{number}-{workers}" for number in range(1, workers + 1)]
    base = [sys.executable, "-m", f"{__package__}.sweep", *sys.argv[1:]]
    base += ["--sweep_workers=1", "--resume", "--noreport"]
    started: list[subprocess.Popen[bytes]] = []
    statuses: list[int | None] = [None]
    try:
        for number, place in enumerate(places, 1):
            part = [f"--part={number}/{workers}", f"--output_dir={place}"]
            with place.with_suffix(".log").open("w") as log:
                errors = None if number == 1 else log
                started.append(
                    subprocess.Popen(
                        [*base, *part], stdout=subprocess.DEVNULL, stderr=errors
                    )
                )
        while None in statuses and not any(statuses):
            time.sleep(_SECONDS)
            statuses = [process.poll() for process in started]
    finally:
        for process in started:  # each saves its state and ends
            process.terminate()
            process.wait()
    if any(statuses):
        raise ValueError(
            f"a part of the sweep has failed: {folder}/*.log say why; what was done is "
            "kept, and --resume goes on from it"
        )
    parts.merge(places, output_dir)
    shutil.rmtree(folder)
