"""The program of some cells: what `run.trainer` compiles, built in one place."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import jax

from fedsvp_jax.accounting import Account, Allowance, SpendingPlan
from fedsvp_jax.accounting.participation import STATS_LEAVE
from fedsvp_jax.config import ResolvedConfig, check_resolved
from fedsvp_jax.core import losses, prng
from fedsvp_jax.core.structs import Array, Model
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.devices.target import Target, current_target
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.round import cohort
from fedsvp_jax.round.state import Aggregator, Cell, RoundPlan

from . import budget, checks, cohort_stream, federated_data, loading
from . import plan as plans
from .run_digest import run_digest

# A sweep builds its programs twice.
_solved = lru_cache(maxsize=256)(budget.solve_noise)


@dataclasses.dataclass(frozen=True)
class Program:
    """The parts of the rounds of some cells; nothing is compiled yet.

    Attributes:
      configs: one resolved config per cell. They differ only in what does not change
        the program (ε, δ, C, learning rate, seed, ...).
      model: the `(init, apply)` pair.
      data: the examples, and who holds which in every cell.
      plan: what is fixed when the round is compiled.
      cells: the cells' values, stacked along a leading axis.
      accounts: one per cell, before the first round.
      target: what the rounds are compiled for.
      cells_together: cells of a sweep that fit side by side on one device.
      stream: the cohorts of clients that are kept on disk; None for data in memory.
    """

    configs: tuple[ResolvedConfig, ...]
    model: Model
    data: federated_data.FederatedData
    plan: RoundPlan
    cells: Cell
    accounts: tuple[Account, ...]
    target: Target
    cells_together: int
    stream: cohort_stream.CohortStream | None

    @property
    def mechanism(self) -> Mechanism:
        """The first cell's mechanism, for what is the same in all of them."""
        return self.accounts[0].mechanism

    @cached_property
    def is_over(self) -> Callable[..., Array]:
        """(cells,) bool of (spent, admitted, done): nobody takes part any more.

        `spent` and `admitted` are the state's, after `done` rounds.
        """
        plan = self.plan
        turns = plan.num_clients // plan.cohort_size if plan.cohorts == "cyclic" else 1

        @jax.jit
        @partial(jax.vmap, in_axes=(0, 0, 0, None))
        def over(cell: Cell, spent: Array, admitted: Array, done: Array) -> Array:
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

        return partial(over, self.cells)


class _Prepared(NamedTuple):
    """The parts that cells share which differ in their seeds alone."""

    config: ResolvedConfig  # its noise solved for
    settings: MechanismConfig
    account: Account
    allowance: Allowance


def build(
    configs: Sequence[ResolvedConfig],
    dataset: Dataset | ClientStore,
    *,
    model: Model | None = None,
    loss: losses.ExampleLoss | None = None,
    aggregator: Aggregator | None = None,
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
        if not isinstance(model, Model):
            raise ValueError(
                f"model must be a pair of functions, got {type(model).__name__}: wrap "
                "it, by models.from_linen(Net()) or, of NNX, models.from_nnx(Net)"
            )
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
    one_size = data.min_num_examples == data.max_num_examples
    stats = jax.tree.leaves(model.shapes(data.example).stats)

    def prepare(config: ResolvedConfig) -> _Prepared:
        if config.solve == "noise":
            config = _solved(config, data.bought, **sizes)
        settings, mechanism = plans.make_configured_mechanism(
            config,
            data.from_records,
            own_code=is_own or loss is not None or aggregator is not None,
            **sizes,
        )
        uniform = config.weighting == "uniform" or mechanism.uniform_weights
        account = budget.account_of(
            config,
            mechanism,
            data.bought,
            # Cohorts follow from the seed, which can be guessed, and amplify by their
            # secrecy alone.
            equal_weights=(uniform or one_size) and not config.secret_noise,
            averages_uploads=aggregator is None,
            nominal=STATS_LEAVE if stats else "",
            assumptions=loading.neighbour_assumptions(config, bought=data.bought[0]),
        )
        return _Prepared(config, settings, account, SpendingPlan(account).allowance)

    # Cells that differ in their seeds alone: their noise is made, checked and planned
    # for once.
    kinds = [dataclasses.replace(config, seed=0) for config in configs]
    by_kind = {kind: prepare(kind) for kind in dict.fromkeys(kinds)}
    query_parts = plans.choose_query_parts(
        by_kind[kinds[0]].settings, model, None if is_own else by_name, data
    )
    for _, of_kind, account, _ in by_kind.values():
        mechanism = account.mechanism
        checks.check_mechanism(first, of_kind, mechanism, model, data, query_parts)
        on_sums = mechanism.basis.central or mechanism.grid is not None
        if aggregator is not None and on_sums:
            raise ValueError(
                f"no aggregator of your own goes with mechanism {first.mechanism} as "
                "it is set, whose claim is about the sum of the uploads: take "
                "noise_trust=nobody and continuous noise"
            )
    prepared, roots = [], []
    for kind, stated, copies in zip(kinds, configs, data.most_copies, strict=True):
        config, _, account, _ = by_kind[kind]
        config = dataclasses.replace(config, seed=stated.seed)
        participation = account.participation._replace(copies=copies)
        account = dataclasses.replace(account, participation=participation)
        prepared.append(by_kind[kind]._replace(config=config, account=account))
        digest = run_digest(config, account.mechanism, data.fingerprint)
        roots.append(prng.run_keys(config.seed, digest, noise_key))
    of_cells, settings, accounts, allowances = zip(*prepared, strict=True)
    cells = plans.make_cells(of_cells, data, settings, allowances, roots)
    parallelism = plans.choose_parallelism(
        first, target, model, data.examples.inputs.shape[1:]
    )
    return Program(
        configs=of_cells,
        model=model,
        data=data,
        plan=plans.make_plan(
            first,
            settings[0],
            accounts[0].mechanism,
            data,
            target,
            parallelism,
            query_parts,
            aggregator=aggregator,
        ),
        cells=cells,
        accounts=accounts,
        target=target,
        cells_together=parallelism.cells,
        stream=None
        if data.reader is None
        else data.reader.stream(roots[0].shared, first.cohorts, allowances[0]),
    )
