"""Settings, data and mechanism that do not fit together are refused before a run."""

import re
from functools import partial

import jax

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import losses
from fedsvp_jax.core.structs import Model, cross_entropy
from fedsvp_jax.core.tree import num_parameters
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, grid
from fedsvp_jax.mechanisms.clipping import OF_A_CLIENT, OF_A_PERSON
from fedsvp_jax.mechanisms.noise_check import check_noise, extreme_uploads
from fedsvp_jax.models import adapters
from fedsvp_jax.models.evaluation import outputs_for
from fedsvp_jax.round.private_query import QueryParts, chosen

from .federated_data import FederatedData


def check_loss(
    config: ResolvedConfig,
    dataset: Dataset | ClientStore,
    model: Model | None,
    loss: losses.ExampleLoss | None,
) -> None:
    """Refuses targets without a loss or a model, and settings with no meaning here."""
    has_targets = dataset.train_targets is not None
    if has_targets and (loss is None or model is None):
        raise ValueError(
            "the data set has targets, so training needs a loss that compares the "
            "model's outputs with them, and such a model; give run.train loss= and "
            "model="
        )
    is_own = model is not None or loss is not None
    if is_own and config.influence_filter != "none":
        raise ValueError(
            "influence_filter must be none with a loss or a model of your own: its "
            "votes are those of a logistic last layer of a model that is built by "
            f"name, got {config.influence_filter}"
        )
    if has_targets and config.class_weights is not None:
        raise ValueError(
            "class_weights must be left out for a data set with targets, which has no "
            f"classes, got {config.class_weights!r}"
        )
    if has_targets and config.corrupted_share > 0:
        raise ValueError(
            "corrupted_share must be 0 for a data set with targets, which no "
            f"corruption changes, got {config.corrupted_share:g}"
        )


def check_outputs(model: Model, data: FederatedData) -> None:
    """Refuses a model from outside that has not one output for each class."""
    outputs = partial(outputs_for, model)
    logits = jax.eval_shape(
        outputs, *model.shapes(data.example), data.examples.inputs[:1]
    )
    if logits.shape != (1, data.num_classes):
        raise ValueError(
            f"model must have {data.num_classes} outputs, one for each class of the "
            f"data, got outputs of the shape {logits.shape[1:]}"
        )


_OF_ROWS = re.compile("(replace|leave) (one|all rows of a person)")


def check_unit(
    config: ResolvedConfig, mechanism: Mechanism, data: FederatedData
) -> None:
    """Raises ValueError: data or bought bounds have another unit than the claim."""
    relation = mechanism.basis.relation
    if data.bought[0] and relation != "none" and not _OF_ROWS.match(relation):
        raise ValueError(
            "bounds of a schema that were bought (private_bounds) hide one row or "
            f'person, and this run is to hide more: "{relation}"; state the bounds '
            "instead, or take clipping=per_example"
        )
    hides = OF_A_PERSON in relation or relation.startswith(OF_A_CLIENT)
    if data.rows_per_person is not None and relation != "none" and not hides:
        raise ValueError(
            f"mechanism {config.mechanism} with clipping={config.clipping} hides "
            f'no person, the unit of these data, but only: "{relation}"; take '
            "per_example, or update_clip or weight_clip with relation=replace_one"
        )


def check_mechanism(
    config: ResolvedConfig,
    settings: MechanismConfig,
    mechanism: Mechanism,
    model: Model,
    data: FederatedData,
    query_parts: QueryParts,
) -> None:
    """Refuses noise, clips, momentum or a utility without meaning or proof."""
    check_noise(mechanism, settings, config.mechanism)
    check_grid_of(mechanism, config.num_rounds, model, data, query_parts)
    basis, has_targets = mechanism.basis, data.examples.targets is not None
    trained = adapters.in_dtype(model, config.compute_dtype)
    check_unit(config, mechanism, data)
    if config.separate_clips and not (
        settings.clip.in_steps and trained.gradient_scale
    ):
        raise ValueError(
            "separate_clips needs clipping=per_example, a linear model and "
            "compute_dtype=float32"
        )
    published = (
        settings.clip.bound_unproved and basis.relation != "none" and not basis.proved
    )
    if config.client_momentum > 0 and published:  # m adds up to 1/(1 - m) gradients
        raise ValueError(
            "client_momentum must be 0 with clipping=paper, whose nominal bound "
            "2C/|D| was published for plain SGD; take another clipping, got "
            f"{config.client_momentum:g}"
        )
    reads_validation = mechanism.needs_contribution or config.influence_filter != "none"
    if config.train_fraction == 1 and reads_validation:
        raise ValueError(
            f"train_fraction must be below 1, got {config.train_fraction}: "
            "contribution ratios and the influence filter read validation examples; "
            "take --train_fraction=0.8"
        )
    if mechanism.needs_contribution and model.loss is not cross_entropy:
        if has_targets and config.utility != "loss":
            raise ValueError(
                "utility must be loss for a data set with targets, which has no "
                f"accuracy, got {config.utility}"
            )
        if config.utility == "loss" and config.empty_utility != "initial":
            raise ValueError(
                "empty_utility must be initial with utility=loss and a loss of your "
                "own, whose value for guessing is not known, got "
                f"{config.empty_utility}"
            )


def check_grid_of(
    mechanism: Mechanism,
    num_rounds: int,
    model: Model,
    data: FederatedData,
    query_parts: QueryParts,
) -> None:
    """Refuses discrete noise on a grid that is too coarse for what is noised."""
    if mechanism.grid is None:
        return
    params, _ = model.shapes(data.example)
    size = num_parameters(jax.eval_shape(lambda p: chosen(p, query_parts), params))
    largest = data.max_num_examples
    infos = extreme_uploads(mechanism, num_rounds, largest)
    for info in infos.values():
        std = float(info.noise_std)
        grid.check_grid(mechanism.grid, std=std, num_examples=largest, size=size)
