"""Options of keeping and watching a run; none of them decides a number."""

import dataclasses
from collections.abc import Sequence

from fedsvp_jax.run.early_stopping import UNRELEASED, Hook


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of keeping and watching a run or a sweep.

    Attributes:
      resume: go on from the newest intact checkpoint; without any, start. `num_rounds`
        of a single run may then be larger than before where nothing else follows it.
      checkpoint_every: rounds between checkpoints.
      on_divergence: "stop" at NaN or infinity, or "continue".
      progress: draw a progress bar when standard error is a terminal.
      loggers: names of `report.loggers.LOGGERS`; each writes to output_dir/NAME, of a
        sweep one folder per cell there.
      on_round: of a single run. Called after every round as `on_round(number, row)`
        with what was released of the row of metrics.jsonl, and with the model that the
        next round starts from, `row["params"]` and `row["stats"]`; `run.STOP` as its
        answer ends the run, which is claimed at its planned length. Rounds then run in
        calls of one.
      reveal: fields of the row that no noise hides and `on_round` is given too
        (`early_stopping.UNRELEASED`). Every claim of the run is nominal then.
      keep_best: of a single run: also keep the model of the best round, for
        `load_model(best=True)`.

    Raises:
      ValueError: `reveal` names another field.
    """

    resume: bool = False
    checkpoint_every: int = 10
    on_divergence: str = "stop"
    progress: bool = False
    loggers: Sequence[str] = ()
    on_round: Hook | None = None
    reveal: Sequence[str] = ()
    keep_best: bool = False

    def __post_init__(self) -> None:
        if unknown := [name for name in self.reveal if name not in UNRELEASED]:
            raise ValueError(
                f"reveal must name fields of {', '.join(UNRELEASED)}; got "
                f"{unknown[0]!r}"
            )


USUAL = Options()
