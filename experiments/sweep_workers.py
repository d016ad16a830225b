"""One sweep on the cores of one machine: parts in processes of their own, then joined.

A worker is the sweep's own command with --part=I/N, so the joined folder has the bytes
that one process writes, but for the checkpoints, of which it has none.
The parts' folders lie in OUTPUT_DIR.parts until all are done. A worker that a signal
killed (kill -9, no memory left) is started again and goes on from its checkpoint.
"""

import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from absl import flags

from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.devices import cpu, target
from fedsvp_jax.run import parts, sweep

_LEAST_ROUNDS = 1000  # of all cells; each worker compiles anew, some twenty seconds
_STARTS = 20  # of one worker
_SECONDS = 0.5  # between two looks at the workers


def number(values: flags.FlagValues, plan: sweep.SweepPlan, rounds: int) -> int:
    """The number of workers: --sweep_workers, else one per core where that pays.

    `auto` is 1 on anything but a CPU, for one part of a sweep, with several devices or
    processes, for loggers (one process writes each), and with --total_epsilon, whose
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
    if (
        used
        or begun
        or rounds < _LEAST_ROUNDS
        or target.current_target().platform != "cpu"
    ):
        return 1
    return cpu.threads()


class _Worker:
    """A part of the sweep in a process, started again when a signal ends it."""

    def __init__(self, command: Sequence[str], folder: pathlib.Path) -> None:
        self.folder = folder
        self._command, self._starts = command, 0
        self._errors = folder.with_suffix(".log")
        self._start()

    def _start(self) -> None:
        self._starts += 1
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=errors
            )

    def is_done(self) -> bool:
        """Whether its part is finished.

        Raises:
          ValueError: it ended with an error, in the sentence that it printed, or was
            killed too often.
        """
        status = self.process.poll()
        if status is not None and status < 0 and self._starts < _STARTS:
            self._start()
            return False
        if status:
            lines = self._errors.read_text().strip().splitlines() or ["it was killed"]
            raise ValueError(lines[-1].removeprefix("error: "))
        return status == 0

    def rows(self) -> int:
        """Lines of results so far."""
        file = self.folder / "results.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def stop(self) -> None:
        """Lets it save its state and end."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


def run(
    output_dir: pathlib.Path,
    workers: int,
    *,
    rounds: int,
    resume: bool,
    progress: bool,
) -> None:
    """Runs this process's own command in parts, and joins their folders.

    Raises:
      ValueError: a part cannot run, or its folder is there without `resume`.
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
    base += ["--sweep_workers=1", "--resume", "--noreport", "--noprogress"]
    started: list[_Worker] = []
    try:
        for number, place in enumerate(places, 1):
            part = [f"--part={number}/{workers}", f"--output_dir={place}"]
            started.append(_Worker([*base, *part], place))
        with progress_bar(total=rounds, unit="round", disable=not progress) as bar:
            while not all([worker.is_done() for worker in started]):
                bar.update(sum(worker.rows() for worker in started) - bar.n)
                time.sleep(_SECONDS)
            bar.update(rounds - bar.n)
    finally:
        for worker in started:
            worker.stop()
    parts.merge(places, output_dir)
    shutil.rmtree(folder)
