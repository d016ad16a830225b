"""Options of keeping and watching a run; none of them decides a number."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of keeping and watching a run or a sweep.

    Attributes:
      resume: go on from the newest intact checkpoint; without any, start.
      checkpoint_every: rounds between checkpoints.
      on_divergence: "stop" at NaN or infinity, or "continue".
      progress: show it on standard error: a bar on a terminal, else about ten lines.
    """

    resume: bool = False
    checkpoint_every: int = 10
    on_divergence: str = "stop"
    progress: bool = False


USUAL = Options()
