"""Options of keeping and watching a run; none of them decides a number."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of keeping and watching a run or a sweep.

    Attributes:
      resume: go on from the newest intact checkpoint; without any, start.
      checkpoint_every: rounds between checkpoints.
      on_divergence: "stop" at NaN or infinity, or "continue".
      progress: draw a progress bar when standard error is a terminal.
      loggers: names of `report.loggers.LOGGERS`; each writes to output_dir/NAME, of a
        sweep one folder per cell there.
    """

    resume: bool = False
    checkpoint_every: int = 10
    on_divergence: str = "stop"
    progress: bool = False
    loggers: Sequence[str] = ()


USUAL = Options()
