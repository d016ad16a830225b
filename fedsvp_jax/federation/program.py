"""The program of some cells: what `run.Trainer` compiles, built in one place."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial

import jax
import numpy as np

from fedsvp_jax.accounting import Account, Plan
from fedsvp_jax.accounting.participation import STATS_LEAVE
from fedsvp_jax.config import ResolvedConfig, check_resolved
from fedsvp_jax.core import losses, prng
from fedsvp_jax.core.structs import Array, Model
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.devices.target import Target, current_target
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.round import cohort
from fedsvp_jax.round.state import Aggregator, Cell, RoundHook, RoundPlan

from . import budget, checks, client_data, cohort_stream, federated_data, loading
from . import plan as plans
from .run_digest import run_digest

# A sweep builds its programs twice, and solves for cells that differ in their seeds.
_solved = lru_cache(maxsize=256)(budget.solve_noise)


@dataclasses.dataclass(frozen=True)
class Program:
    """What the rounds of some cells are made of; nothing is compiled yet.

    Attributes:
      configs: one resolved config per cell. They differ only in what does not change
        the program (ε, δ, C, learning rate, seed, ...).
      model: the `(init, apply)` pair.
      data: the examples, and who holds which in every cell.
      plan: what is fixed when the round is compiled.
      cells: the cells' values, stacked along a leading axis.
      mechanism_configs: one per cell, as concrete float32 numbers.
      target: what the rounds are compiled for.
      cells_together: cells of a sweep that fit side by side on one device.
      stream: the cohorts of clients that are kept on disk; None for data in memory.
      own_code: whether the model, the loss or the aggregator is one's own.
      averages: whether the aggregator is one of the package's, which average uploads.
    """

    configs: tuple[ResolvedConfig, ...]
    model: Model
    data: client_data.FederatedData
    plan: RoundPlan
    cells: Cell
    mechanism_configs: tuple[MechanismConfig, ...]
    target: Target
    cells_together: int
    stream: cohort_stream.CohortStream | None
    own_code: bool
    averages: bool = True

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanism of each cell, with its claim on the data as they were read."""
        return tuple(
            plans.finished_mechanism(
                config, settings, self.data.from_records, own_code=self.own_code
            )
            for settings, config in zip(
                self.mechanism_configs, self.configs, strict=True
            )
        )

    @property
    def mechanism(self) -> Mechanism:
        """The first cell's, for what is the same in all of them."""
        return self.mechanisms[0]

    @cached_property
    def accounts(self) -> tuple[Account, ...]:
        """One per cell, before the first round."""
        return tuple(
            budget.account_of(
                config,
                mechanism,
                self.data.bought,
                # Cohorts follow from the seed, which can be guessed, and amplify by
                # their secrecy alone.
                equal_weights=self.equal_weights and not config.secret_noise,
                averaged=self.averages,
                nominal=STATS_LEAVE if self.keeps_stats else "",
                assumptions=loading.neighbour_assumptions(
                    config, bought=self.data.bought[0]
                ),
                copies=copies,
            )
            for config, mechanism, copies in zip(
                self.configs, self.mechanisms, self.data.most_copies, strict=True
            )
        )

    @property
    def equal_weights(self) -> bool:
        """Whether every client weighs the same in every cohort that may be drawn."""
        data = self.data
        one_size = data.min_num_examples == data.max_num_examples
        return self.plan.uniform_weights or self.mechanism.uniform_weights or one_size

    def is_over(
        self, spent: Array | np.ndarray, admitted: Array | np.ndarray, done: int
    ) -> bool:
        """Whether nobody takes part any more, in any cell, after `done` rounds."""

        plan = self.plan
        turns = plan.num_clients // plan.cohort_size if plan.cohorts == "cyclic" else 1

        @jax.jit
        @jax.vmap
        def over(cell: Cell, spent: Array, admitted: Array) -> Array:
            of_round = partial(
                cohort.cohort_of_round,
                cell.root.shared,
                cell.allowance,
                spent,
                cohort_size=plan.cohort_size,
                cohorts=plan.cohorts,
                admitted=admitted,
            )
            return cohort.is_over(of_round, done, turns)

        return bool(over(self.cells, spent, admitted).all())

    @property
    def keeps_stats(self) -> bool:
        """Whether the model uploads statistics (BatchNorm's) beside its parameters."""
        _, stats = self.model.shapes(self.data.example)
        return bool(jax.tree.leaves(stats))


def build(
    configs: Sequence[ResolvedConfig],
    dataset: Dataset | ClientStore,
    *,
    model: Model | None = None,
    loss: losses.ExampleLoss | None = None,
    aggregator: Aggregator | None = None,
    hooks: Sequence[RoundHook] = (),
    target: Target | None = None,
    noise_key: bytes | None = None,
) -> Program:
    """The program of one config per cell.

    Args:
      configs: resolved; see `Program.configs`. With solve=noise their noise is solved
        for first, so the program's configs may differ from them.
      dataset: the data of all cells. A store is streamed, to one cell.
      model: built by the config's name when None.
      loss: `(output, target) -> ()` of one example, in the place of cross-entropy.
        With it a model has any outputs that the loss takes.
      aggregator: in the place of the average of uploads. What it does to noised uploads
        costs no ε, but then only an upload's own noise counts, whoever looks; a claim
        about the sum does not take it.
      hooks: measure every round's uploads; their fields stand in the clients' rows.
      target: the device that the rounds are for; the one that JAX computes on when
        None.
      noise_key: of one cell, with secret_noise (`prng.run_keys`).

    Raises:
      ValueError: settings and data do not fit together, or the promise of
        --total_epsilon cannot be kept.
    """
    first = configs[0]
    target = target or current_target()
    check_resolved(first)
    if first.secret_noise != (noise_key is not None):
        raise ValueError(
            "secret_noise is for one run of `fedsvp train`, which keeps the key"
        )
    checks.check_loss(first, dataset, model, loss)

    by_name = plans.model_by_name(first, target, dataset.num_classes)
    is_own = model is not None
    if model is not None:  # whose author nobody checks, and a clip rests on it
        model = model._replace(gradient_scale=None)
    model = model or by_name(dataset.num_classes)
    if loss is not None:
        model = model._replace(loss=losses.of_examples(loss))
    data = federated_data.federate(configs, dataset)
    if is_own and data.examples.targets is None:
        checks.check_outputs(model, data)
    if loss is not None:
        losses.check_shape(model, data.examples, data.example)
    sizes = plans.sizes(first, data)
    # Cells that differ in their seeds alone: their noise is made, checked and planned
    # for once.
    kinds = [dataclasses.replace(config, seed=0) for config in configs]
    solved = {
        kind: _solved(kind, data.bought, **sizes) if kind.solve == "noise" else kind
        for kind in kinds
    }
    mechanisms = {
        kind: plans.make_configured_mechanism(config, **sizes)
        for kind, config in solved.items()
    }
    planned = {
        kind: Plan(budget.account_of(solved[kind], mechanism, data.bought)).allowance
        for kind, (_, mechanism) in mechanisms.items()
    }
    configs = [
        dataclasses.replace(solved[kind], seed=config.seed)
        for kind, config in zip(kinds, configs, strict=True)
    ]
    configured = [mechanisms[kind] for kind in kinds]
    allowances = [planned[kind] for kind in kinds]
    first_settings, first_mechanism = configured[0]
    query_parts = plans.choose_query_parts(
        first_settings, model, None if is_own else by_name, data
    )
    for settings, mechanism in mechanisms.values():
        checks.check_mechanism(first, settings, mechanism, model, data, query_parts)
        if aggregator is not None:
            checks.check_aggregator(first.mechanism, mechanism)
    roots = [
        prng.run_keys(
            config.seed, run_digest(config, mechanism, data.fingerprint), noise_key
        )
        for config, (_, mechanism) in zip(configs, configured, strict=True)
    ]
    mechanism_configs = tuple(jax.tree.map(np.float32, part) for part, _ in configured)
    cells = plans.make_cells(configs, data, mechanism_configs, allowances, roots)
    stream = None
    if data.reader is not None:
        stream = data.reader.stream(roots[0].shared, first.cohorts, allowances[0])
    parallelism = plans.choose_parallelism(
        first, target, model, data.examples.inputs.shape[1:]
    )
    return Program(
        configs=tuple(configs),
        model=model,
        data=data,
        plan=plans.make_plan(
            first,
            first_settings,
            first_mechanism,
            data,
            target,
            parallelism,
            query_parts,
            aggregator=aggregator,
            hooks=hooks,
        ),
        cells=cells,
        mechanism_configs=mechanism_configs,
        target=target,
        cells_together=parallelism.cells,
        stream=stream,
        own_code=is_own or loss is not None or aggregator is not None,
        averages=aggregator is None,
    )
