"""The filter within a run: what changes the state before some rounds (`run.loop`)."""

import dataclasses
from typing import Any

import jax
import numpy as np

from fedsvp_jax import models
from fedsvp_jax.algorithm.local_training import TrainingRecipe
from fedsvp_jax.algorithm.state import ServerState
from fedsvp_jax.devices import processes
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.influence.admission import Admission, planned_cost, verdict_record
from fedsvp_jax.influence.lazy import Verdict
from fedsvp_jax.influence.pipeline import Centre
from fedsvp_jax.tree import cell_of


class FilterHook:
    """The influence filter before the rounds at which a pass is due."""

    def __init__(self, trainer: Trainer) -> None:
        program, self._trainer = trainer.program, trainer
        config = program.configs[0]
        assert program.data.warmup is not None
        centre = Centre(
            program.data.warmup,
            lambda count: models.make_model(
                config.model, num_classes=count, kernels=program.target.kernels
            ),
            program.data.num_classes,
            TrainingRecipe(config.batch_size, config.backbone_epochs, "mean"),
            config.learning_rate,
        )
        self._admission = Admission(
            config,
            program.data.examples,
            cell_of(program.data.split, 0),
            centre,
            num_rounds=config.num_rounds,
            root=cell_of(program.cells.root, 0),
        )
        self.verdict: Verdict | None = None  # of the pass before the next round
        self.cost = planned_cost(config)._replace(passes=1)

    def rounds_until_due(self, done: int) -> int:
        """As `Admission.rounds_until_due`."""
        return self._admission.rounds_until_due(done)

    def __call__(self, state: ServerState, done: int) -> ServerState:
        """Judges all clients: the state with those who may take part.

        Raises:
          ValueError: they are too few for any round to have a cohort.
        """
        host = processes.to_host(state)
        params, stats = cell_of((host.params, host.stats), 0)
        self.verdict = jax.device_get(self._admission.decide(params, stats, done))
        assert self.verdict is not None
        admitted = ~self.verdict.rejected[None]
        program = self._trainer.program
        if program.is_over(np.zeros_like(host.spent), admitted, done):
            least = int(program.cells.allowance.least_cohort[0])
            raise ValueError(
                f"the influence filter admits {admitted.sum()} clients, and no cohort "
                f"has the {least} that its claim needs; lower --cohort_size"
                if least > 1
                else "the influence filter admits nobody"
            )
        return self._trainer.place(dataclasses.replace(host, admitted=admitted))

    def take_record(self) -> dict[str, Any] | None:
        """What the next row keeps of a pass; None where there was none."""
        verdict, self.verdict = self.verdict, None
        if verdict is None:
            return None
        return verdict_record(verdict, self.cost)
