"""The program of some cells: what the engine compiles, built in one place."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property, partial

import jax
import numpy as np

from fedsvp_jax import losses, models, prng
from fedsvp_jax.accounting import Account
from fedsvp_jax.accounting.events import STATS_LEAVE
from fedsvp_jax.algorithm import cohort, private_query
from fedsvp_jax.algorithm.evaluation import outputs_for
from fedsvp_jax.algorithm.private_query import Asked
from fedsvp_jax.algorithm.state import Cell, RoundPlan
from fedsvp_jax.common_settings import RoundSettings
from fedsvp_jax.config import ExperimentConfig, FederationSettings, check_resolved
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.client_store import ClientStore
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.devices.target import Target, here
from fedsvp_jax.federation import plan as plans
from fedsvp_jax.federation.budget import account_of, solve_noise
from fedsvp_jax.federation.cohort_stream import CohortStream
from fedsvp_jax.federation.federated_data import FederatedData, federate
from fedsvp_jax.federation.loading import neighbour_assumptions
from fedsvp_jax.federation.run_digest import run_digest
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, make_mechanism
from fedsvp_jax.mechanisms.base import over_data
from fedsvp_jax.mechanisms.grid import check_grid
from fedsvp_jax.mechanisms.played import check_noise, extreme_uploads
from fedsvp_jax.structs import Array, Model, Params, cross_entropy
from fedsvp_jax.tree import num_parameters


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
    """

    configs: tuple[ExperimentConfig, ...]
    model: Model
    data: FederatedData
    plan: RoundPlan
    cells: Cell
    mechanism_configs: tuple[MechanismConfig, ...]
    target: Target
    cells_together: int
    stream: CohortStream | None

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """One per cell: what each one claims, of data that were read as they were."""
        made = (
            plans.claimed(make_mechanism(self.plan.mechanism, told), config)
            for told, config in zip(self.mechanism_configs, self.configs, strict=True)
        )
        return tuple(over_data(one, self.data.from_records) for one in made)

    @property
    def mechanism(self) -> Mechanism:
        """The first cell's, for what is the same in all of them."""
        return self.mechanisms[0]

    @cached_property
    def accounts(self) -> tuple[Account, ...]:
        """One per cell, before the first round."""
        nominal = STATS_LEAVE if self.keeps_stats else ""
        return tuple(
            account_of(
                config,
                mechanism,
                equal_weights=self.equal_weights,
                nominal=nominal,
                assumptions=neighbour_assumptions(config),
                copies=copies,
            )
            for config, mechanism, copies in zip(
                self.configs, self.mechanisms, self.data.most_copies, strict=True
            )
        )

    @property
    def example(self) -> Array:
        """A batch of one example, as `model.init` takes it."""
        return preprocessing.normalize(self.data.examples.inputs[:1])

    @property
    def uniform_weights(self) -> bool:
        """Whether a client's weight does not follow the number of its examples."""
        return self.plan.uniform_weights or self.mechanism.uniform_weights

    @property
    def equal_weights(self) -> bool:
        """Whether every client weighs the same in every cohort that may be drawn."""
        data = self.data
        return self.uniform_weights or data.min_num_examples == data.max_num_examples

    def is_over(
        self, spent: Array | np.ndarray, admitted: Array | np.ndarray, done: int
    ) -> bool:
        """Whether nobody takes part any more, in any cell, after `done` rounds.

        Args:
          spent, admitted: (cells, M), as in `ServerState`, after these rounds.
          done: rounds done so far.
        """
        of_cell = partial(
            cohort.is_over,
            cohort_size=self.plan.cohort_size,
            cohorts=self.plan.cohorts,
        )

        @jax.jit
        @jax.vmap
        def over(cell: Cell, spent: Array, admitted: Array) -> Array:
            return of_cell(
                cell.root.shared, cell.allowance, spent, done, admitted=admitted
            )

        return bool(over(self.cells, spent, admitted).all())

    @property
    def keeps_stats(self) -> bool:
        """Whether the model uploads statistics (BatchNorm's) beside its parameters."""
        _, stats = jax.eval_shape(self.model.init, jax.random.key(0), self.example)
        return bool(jax.tree.leaves(stats))


def _check_grid(
    mechanism: Mechanism,
    config: RoundSettings,
    model: Model,
    data: FederatedData,
    asked: Asked | None,
) -> None:
    """Refuses discrete noise on a grid that is too coarse for what is noised.

    Raises:
      ValueError: how many bits are needed.
    """
    if mechanism.grid is None:
        return

    def noised(example: Array) -> Params:
        params, _ = model.init(jax.random.key(0), example)
        return params if asked is None else private_query.chosen(params, asked)

    example = preprocessing.normalize(data.examples.inputs[:1])
    size = num_parameters(jax.eval_shape(noised, example))
    largest = data.max_num_examples
    played = extreme_uploads(
        mechanism, config.num_clients, config.num_rounds, num_examples=largest
    )
    for info in played.values():
        std = float(info.noise_std)
        check_grid(mechanism.grid, std=std, num_examples=largest, size=size)


def _check_outputs(model: Model, data: FederatedData) -> None:
    """Refuses a model from outside that has not one output for each class.

    Raises:
      ValueError: how many it has.
    """
    inputs = data.examples.inputs[:1]
    example = preprocessing.normalize(inputs)
    params, stats = jax.eval_shape(model.init, jax.random.key(0), example)
    logits = jax.eval_shape(partial(outputs_for, model), params, stats, inputs)
    if logits.shape != (1, data.num_classes):
        raise ValueError(
            f"model must have {data.num_classes} outputs, one for each class of the "
            f"data, got outputs of the shape {logits.shape[1:]}"
        )


def _check_loss(
    config: ExperimentConfig,
    dataset: Dataset | ClientStore,
    model: Model | None,
    loss: losses.ExampleLoss | None,
) -> None:
    """Refuses targets without a loss or a model, and settings with no meaning here.

    Raises:
      ValueError: which setting, and what it must be.
    """
    has_targets = isinstance(dataset, Dataset) and dataset.train_targets is not None
    if has_targets and loss is None:
        raise ValueError(
            "the data set has targets, so training needs a loss that compares the "
            "model's outputs with them; give run.train one as loss="
        )
    if has_targets and model is None:
        raise ValueError(
            "the data set has targets, so training needs a model with the outputs that "
            "the loss takes; give run.train one as model="
        )
    if loss is not None and config.influence_filter != "none":
        raise ValueError(
            "influence_filter must be none with a loss of your own: its votes are "
            f"those of a logistic last layer, got {config.influence_filter}"
        )
    if has_targets and config.corrupted_share > 0:
        raise ValueError(
            "corrupted_share must be 0 for a data set with targets, which no "
            f"corruption changes, got {config.corrupted_share:g}"
        )


def _check_utility(
    config: FederationSettings, model: Model, data: FederatedData, mechanism: Mechanism
) -> None:
    """Refuses a utility of coalitions that the model's loss gives no meaning to.

    Raises:
      ValueError: which setting, and what it must be.
    """
    if not mechanism.needs_contribution or model.loss is cross_entropy:
        return
    if data.examples.targets is not None and config.utility != "loss":
        raise ValueError(
            "utility must be loss for a data set with targets, which has no accuracy, "
            f"got {config.utility}"
        )
    if config.utility == "loss" and config.empty_utility != "initial":
        raise ValueError(
            "empty_utility must be initial with utility=loss and a loss of your own, "
            f"whose value for guessing is not known, got {config.empty_utility}"
        )


def _check_client_values(
    config: ExperimentConfig, data: FederatedData, mechanism: Mechanism
) -> None:
    """Refuses values of clients where they have no meaning.

    Raises:
      ValueError: which setting, and what it must be.
    """
    if config.client_values == "none":
        return
    if mechanism.claim.central:
        raise ValueError(
            "client_values must be none where the noise hides a cohort's sum and no "
            f"single upload, as with mechanism {config.mechanism} here: a value tells "
            f"of one upload; got {config.client_values}"
        )
    if data.examples.targets is not None and config.client_value_utility != "loss":
        raise ValueError(
            "client_value_utility must be loss for a data set with targets, which has "
            f"no accuracy, got {config.client_value_utility}"
        )


def _check_momentum(
    momentum: float, told: MechanismConfig, mechanism: Mechanism
) -> None:
    """Refuses momentum of clients where the noise rests on what nobody has proved.

    Raises:
      ValueError: the published 2C/|D| was granted for plain SGD; momentum m adds up to
        1/(1 - m) clipped gradients in one step.
    """
    claim = mechanism.claim
    granted = claim.relation != "none" and not claim.proved
    if momentum > 0 and told.clip.granted and granted:
        raise ValueError(
            "client_momentum must be 0 with sensitivity=paper, whose nominal bound "
            "2C/|D| was published for plain SGD; take another sensitivity, got "
            f"{momentum:g}"
        )


def build(
    configs: Sequence[ExperimentConfig],
    dataset: Dataset | ClientStore,
    *,
    model: Model | None = None,
    loss: losses.ExampleLoss | None = None,
    target: Target | None = None,
) -> Program:
    """The program of one config per cell.

    Args:
      configs: resolved; see `Program.configs`. With solve=noise their noise is solved
        for first, so the program's configs may differ from them.
      dataset: the data of all cells. A store is streamed, to one cell.
      model: built by the config's name when None.
      loss: `(output, target) -> ()` of one example, in the place of cross-entropy.
        With it a model has any outputs that the loss takes.
      target: the device that the rounds are for; the one that JAX computes on when
        None.

    Raises:
      ValueError: settings and data do not fit together, or the promise of
        --total_epsilon cannot be kept.
    """
    first = configs[0]
    target = target or here()
    check_resolved(first)
    _check_loss(first, dataset, model, loss)
    if model is not None and first.influence_filter != "none":
        raise ValueError(
            "influence_filter must be none for a model that is not built by name, got "
            f"{first.influence_filter}"
        )

    def by_name(num_classes: int) -> Model:
        return models.make_model(
            first.model, num_classes=num_classes, kernels=target.kernels
        )

    build_model = by_name if model is None else None
    own, model = model, model or by_name(dataset.num_classes)
    if loss is not None:
        model = model._replace(loss=losses.of_examples(loss))
    data = federate(configs, dataset)
    if own is not None and data.examples.targets is None:
        _check_outputs(own, data)
    if loss is not None:
        example = preprocessing.normalize(data.examples.inputs[:1])
        losses.check_shape(model, data.examples, example)
    if first.solve == "noise":
        configs = [solve_noise(one, **plans.sizes(one, data)) for one in configs]
    made = [plans.told_and_made(one, **plans.sizes(one, data)) for one in configs]
    asked = plans.asked_of(made[0][0], model, build_model, data)
    for told, mechanism in made:
        ends = told.min_num_examples, told.max_num_examples
        check_noise(mechanism, first.num_clients, first.num_rounds, sizes=ends)
        _check_grid(mechanism, first, model, data, asked)
        _check_momentum(first.client_momentum, told, mechanism)
        _check_utility(first, model, data, mechanism)
        _check_client_values(first, data, mechanism)
    allowances = [
        account_of(config, mechanism).plan.allowance
        for config, (_, mechanism) in zip(configs, made, strict=True)
    ]
    mechanism_configs = tuple(jax.tree.map(np.float32, told) for told, _ in made)
    other = []
    if own is not None or loss is not None:
        init = jax.eval_shape(
            model.init,
            jax.random.key(0),
            preprocessing.normalize(data.examples.inputs[:1]),
        )
        other = [str(init), "" if loss is None else losses.name_of(loss)]
    roots = [
        prng.run_keys(
            config.seed, run_digest(config, mechanism, data.fingerprint, *other)
        )
        for config, (_, mechanism) in zip(configs, made, strict=True)
    ]
    cells = plans.make_cells(configs, data, mechanism_configs, allowances, roots)
    stream = None
    if data.reader is not None:
        stream = CohortStream(
            data.reader,
            root=roots[0].shared,
            num_rounds=first.num_rounds,
            cohorts=first.cohorts,
            allowance=allowances[0],
        )
    shape = data.examples.inputs.shape[1:]
    together = plans.sides(first, target, model, shape)
    return Program(
        configs=tuple(configs),
        model=model,
        data=data,
        plan=plans.make_plan(first, made[0][0], data, target, together, asked),
        cells=cells,
        mechanism_configs=mechanism_configs,
        target=target,
        cells_together=together.cells,
        stream=stream,
    )
