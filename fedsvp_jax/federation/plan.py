"""The static plan and the cells of a round from settings and a federation."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.config import ResolvedConfig, check_resolved
from fedsvp_jax.core import losses, optimizers, prng, tree
from fedsvp_jax.core.settings import FEATURE_MODELS, TABLE_MODELS, by_class, part
from fedsvp_jax.core.structs import Array, Model, Params
from fedsvp_jax.data.dataset import ClientStore, Dataset, Names
from fedsvp_jax.devices.target import Parallelism, Target, current_target
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    about,
    make_mechanism,
    subsampling,
    with_analytic_multiplier,
)
from fedsvp_jax.mechanisms.base import assuming, nominal, over_data
from fedsvp_jax.models import make_model
from fedsvp_jax.models.last_layer import backbone_of
from fedsvp_jax.round import (
    client_work,
    local_training,
    private_query,
)
from fedsvp_jax.round.aggregator import SUM_ON_GRID, WEIGHTED_SUM
from fedsvp_jax.round.state import Aggregator, Cell, RoundPlan
from fedsvp_jax.shapley.coalitions import (
    EstimationPlan,
    coalition_groups,
    planned_coalitions,
)

from .federated_data import FederatedData
from .run_digest import KEYED, OWN_CODE, PAIRED


def sizes(config: ResolvedConfig, data: FederatedData) -> dict[str, Any]:
    """The sizes of batches and clients, as `make_configured_mechanism` takes them."""
    return {
        "batch_size": min(config.batch_size, data.split.train.shape[-1]),
        "min_num_examples": float(
            data.counts.min_num_private
            if config.clip.is_query
            else data.min_num_examples
        ),
        "max_num_examples": data.max_num_examples,
        "rows_per_person": data.rows_per_person,
    }


def choose_parallelism(
    config: ResolvedConfig, target: Target, model: Model, example_shape: Sequence[int]
) -> Parallelism:
    """The trainings side by side, as the flags say, else as the target chooses.

    A CPU trains the whole cohort side by side if the model has few weights and the
    clients are of one size. Otherwise it trains one client after another, because all
    clients side by side take the steps of the largest (measured on 2 cores,
    BUILD_NOTES.md).
    """
    planned = len(planned_coalitions(config.shapley, config.num_attributes))
    sampled = 0 if config.shapley == "exact" else config.shapley_trainings
    shape = (config.batch_size, *example_shape)
    batch = jax.ShapeDtypeStruct(shape, jnp.float32)
    params, stats = model.shapes(batch)
    activations = 0
    if target.platform != "cpu":

        def residuals(params: Params, stats: Params, batch: Array) -> object:
            key = jax.random.key(0)
            return jax.vjp(
                lambda p: model.apply(p, stats, batch, train=True, key=key)[0], params
            )[1]

        activations = tree.num_bytes(jax.eval_shape(residuals, params, stats, batch))
    parallelism = target.parallelism(
        clients=config.cohort_size,
        coalitions=max(planned, sampled),
        weights=tree.num_bytes(params),
        activations=activations,
        alike=config.model in (*TABLE_MODELS, "small_cnn", *FEATURE_MODELS)
        and config.partition in ("iid", "paper"),
    )
    return parallelism._replace(
        clients=min(
            config.client_chunk_size or parallelism.clients, config.cohort_size
        ),
        coalitions=config.coalition_chunk_size or parallelism.coalitions,
    )


def mechanism_settings(config: ResolvedConfig, **sizes: Any) -> MechanismConfig:
    """The part of the settings that the mechanism reads.

    What a federation says of its clients comes beside them (`sizes`).

    Args:
      config: resolved settings.
      **sizes: of `MechanismConfig`'s fields `batch_size`, where it is not the settings'
        (the largest client's size where nobody fills a batch); `min_num_examples`, by
        default 1; `max_num_examples`, by default as many; `rows_per_person`.
    """
    check_resolved(config)
    entry = about(config.mechanism)
    own_settings = entry.settings and part(entry.settings, config)
    smallest = int(sizes.get("min_num_examples", 1))
    sizes["max_num_examples"] = sizes.get("max_num_examples") or smallest
    settings = part(MechanismConfig, config, settings=own_settings, **sizes)
    always_analytic = entry.epsilon_sets_noise and "calibration" in entry.unread
    if always_analytic or settings.calibration == "analytic":
        settings = with_analytic_multiplier(settings)
    return settings


def make_configured_mechanism(
    config: ResolvedConfig,
    from_records: Names = (),
    *,
    own_code: bool = False,
    **sizes: Any,
) -> tuple[MechanismConfig, Mechanism]:
    """`mechanism_settings` in float32, as a compiled round has them, and the mechanism.

    Its claim is the one that a run of the config leaves to it.

    Args:
      config: resolved settings.
      from_records: facts that were taken from the records, as `Dataset` has them.
      own_code: whether the model, the loss or the aggregator is one's own.
      **sizes: as in `mechanism_settings`.

    Raises:
      ValueError: a setting that the mechanism refuses, or lacks.
    """
    settings = jax.tree.map(np.float32, mechanism_settings(config, **sizes))
    mechanism = make_mechanism(config.mechanism, settings)
    if config.paired_noise:
        mechanism = nominal(mechanism, PAIRED)
    elif config.secret_noise:
        mechanism = assuming(mechanism, KEYED)
    elif own_code:
        mechanism = nominal(mechanism, OWN_CODE)
    return settings, over_data(mechanism, from_records)


def poisson_places(config: MechanismConfig) -> int | None:
    """M: room for a Poisson batch; None where none is drawn."""
    if not subsampling.is_poisson(config):
        return None
    batches = config.num_rounds * subsampling.most_steps(config)
    return subsampling.poisson_places(
        config.batch_size, config.max_num_examples, batches, config.rows_per_person or 1
    )


def step_gradient(config: ResolvedConfig) -> local_training.Gradient:
    """The gradient that a local step follows.

    Every step's gradient is clipped, also under `update_clip` and in DP-FedAvg: plain
    SGD is often not stable at a noised model. Only FedAvg with an infinite C clips
    nothing.
    """
    if config.clip.in_steps:
        return "per_example"
    return "mean" if math.isinf(config.l2_norm_clip) else "clipped_mean"


def model_by_name(
    config: ResolvedConfig, target: Target, num_classes: int
) -> Callable[[int], Model]:
    """Builds the model that the settings name, from a number of classes.

    A linear model starts with biases that predict the classes' shares, in proportion to
    the weights of their losses.

    Args:
      config: resolved.
      target: the device that the rounds are for.
      num_classes: of the data.

    Raises:
      SettingError: shares or weights of another number of classes.
    """
    shares = by_class("class_shares", config.class_shares, num_classes)
    if weights := by_class("class_weights", config.class_weights, num_classes):
        shares = tuple(np.multiply(shares, weights).tolist()) if shares else ()
    return lambda count: make_model(
        config.model,
        num_classes=count,
        kernels=target.platform,
        shares=shares if count == num_classes else (),  # `backbone_of` asks for others
    )


def choose_query_parts(
    config: MechanismConfig,
    model: Model,
    build: Callable[[int], Model] | None,
    data: FederatedData,
) -> private_query.QueryParts:
    """The parts of the model that the private query moves; () without one.

    `build` makes the model from a number of classes; None: it is not built by name.

    Raises:
      ValueError: another --private_layers than all for a model whose last layer is not
        known, or `classes` or a --private_margin where the private attribute is no
        class.
    """
    if not config.clip.is_query:
        return ()
    classes, layers = data.counts.private_classes, config.private_layers
    if config.private_margin > 0 and not classes:
        raise ValueError(
            "private_margin must be 0 where the private attribute is no class, got "
            f"{config.private_margin:g}"
        )
    params, _ = model.shapes(data.example)
    leaves = jax.tree.leaves(params)
    if layers == "all":
        return (True,) * len(leaves)
    if build is None:
        raise ValueError(
            "private_layers must be all for a model that is not built by name, got "
            f"{layers}"
        )
    is_last = jax.tree.leaves(backbone_of(build, data.example).is_last)
    if layers == "last":
        return tuple(is_last)
    of_last = [leaf for leaf, last in zip(leaves, is_last, strict=True) if last]
    if not classes or any(len(leaf) != data.num_classes for leaf in of_last):
        raise ValueError(
            "private_layers must be all or last where the private attribute is no "
            "class, or the model's last layer keeps no class's weights in a row, got "
            f"{layers}"
        )
    return tuple(classes if last else False for last in is_last)


def make_plan(
    config: ResolvedConfig,
    mechanism_config: MechanismConfig,
    mechanism: Mechanism,
    data: FederatedData,
    target: Target,
    parallelism: Parallelism,
    query_parts: private_query.QueryParts,
    *,
    aggregator: Aggregator | None = None,
) -> RoundPlan:
    """The static choices of the round compiled for a target: settings and parts.

    Args:
      aggregator: in the place of what the mechanism asks for: a sum on the grid where
        its claim is about that sum, else a weighted sum.
    """
    longest = data.split.validation.shape[-1]
    recipe = part(
        local_training.TrainingRecipe,
        config,
        batch_size=mechanism_config.batch_size,
        gradient=step_gradient(config),
        places=poisson_places(mechanism_config),
        proximal=config.proximal_mu > 0,
        momentum=config.client_momentum,
        class_weights=by_class("class_weights", config.class_weights, data.num_classes),
    )
    known_steps = target.known_steps(parallelism)
    stacked = known_steps or parallelism.coalitions > 1
    fewest = data.min_num_examples
    least, most = (
        int(local_training.upload_steps(recipe, number))
        for number in (fewest, data.max_num_examples)
    )
    alike = least == most and fewest >= recipe.batch_size and not query_parts
    if known_steps or (target.known_trips and alike):
        recipe = recipe._replace(
            most_steps=most,
            full_batches=alike,
            fewer_kernels=target.fewer_kernels(parallelism),
        )
    work = client_work.ESTIMATING if mechanism.needs_contribution else client_work.PLAIN
    if mechanism_config.uploads_gradient:
        work = client_work.GRADIENT
    if query_parts:
        work = client_work.PRIVATE_QUERY
    if aggregator is None:
        on_grid = mechanism.grid is not None and mechanism.basis.central
        aggregator = SUM_ON_GRID if on_grid else WEIGHTED_SUM
    return part(
        RoundPlan,
        config,
        work=work,
        aggregator=aggregator,
        recipe=recipe,
        estimation=part(
            EstimationPlan,
            config,
            private_attribute=data.counts.attributes.private,
            groups=coalition_groups(
                data.counts.coalition_sizes,
                config.batch_size,
                epochs=config.local_epochs if stacked else None,
            ),
            validation_batch_size=min(longest, config.eval_batch_size),
            estimator=config.shapley,
            num_drawn=0 if config.shapley == "exact" else config.shapley_trainings,
            num_parallel=parallelism.coalitions,
            known_trips=stacked,
        ),
        num_tested_attributes=data.counts.num_tested_attributes,
        differ_by_class=data.test.targets is None and config.partition != "by_writer",
        test_batch_size=min(config.eval_batch_size, len(data.test.labels)),
        private_classes=data.counts.private_classes,
        query_parts=query_parts,
        uniform_weights=config.weighting == "uniform",
        server=part(optimizers.ServerSettings, config),
        client=part(optimizers.ClientSettings, config),
        client_chunk_size=parallelism.clients,
        known_trips=target.known_trips,
        norms_in_stages=target.norms_in_stages,
    )


def make_cells(
    configs: Sequence[ResolvedConfig],
    data: FederatedData,
    mechanisms: Sequence[MechanismConfig],
    allowances: Sequence[Allowance],
    roots: Sequence[prng.Keys],
) -> Cell:
    """The cells' values, stacked along a leading axis."""
    rates = [part(local_training.TrainingRates, config) for config in configs]
    return Cell(
        root=tree.stack(roots),
        split=data.split,
        rates=tree.stack(jax.tree.map(np.float32, rates)),
        mechanism=tree.stack(mechanisms),
        allowance=tree.stack(allowances),
    )


def recorded_settings(
    config: ResolvedConfig,
    dataset: Dataset | ClientStore,
    loss: losses.ExampleLoss | None = None,
    model: Model | None = None,
) -> dict[str, object]:
    """The content of config.json: the resolved settings and the data's fingerprint.

    What trains side by side is recorded as it was chosen; of a model of one's own that
    it is one; a loss of one's own by name, and whether it is told targets.
    """
    parallelism = choose_parallelism(
        config,
        current_target(),
        model or make_model(config.model, num_classes=dataset.num_classes),
        dataset.example_shape,
    )
    settings = {
        **dataclasses.asdict(config),
        "client_chunk_size": parallelism.clients,
        "coalition_chunk_size": parallelism.coalitions,
        "num_train_examples": len(dataset.train_labels),
        "num_test_examples": len(dataset.test_labels) - config.validation_examples,
        "public_test": dataset.public_test,
        "num_classes": dataset.num_classes,
        "example_shape": list(dataset.example_shape),
        "data_fingerprint": dataset.fingerprint,
    }
    if model is not None:
        settings["own_model"] = True
    schema = dataset.schema
    if schema is not None and schema.bounds_draws:
        settings["bounds_epsilon"] = schema.bounds_epsilon
    if loss is not None:
        has_targets = dataset.train_targets is not None
        name = getattr(loss, "__qualname__", type(loss).__qualname__)
        settings |= {"loss": name, "has_targets": has_targets}
    return settings
