"""Settings, data and mechanism that do not fit together are refused before a run."""

from functools import partial

import jax

from fedsvp_jax import losses
from fedsvp_jax.algorithm import private_query
from fedsvp_jax.algorithm.evaluation import outputs_for
from fedsvp_jax.algorithm.private_query import Asked
from fedsvp_jax.common_settings import RoundSettings
from fedsvp_jax.config import FederationSettings
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.federation.federated_data import FederatedData
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, grid
from fedsvp_jax.mechanisms.played import extreme_uploads
from fedsvp_jax.structs import Array, Model, Params, cross_entropy
from fedsvp_jax.tree import num_parameters


def check_grid(
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
    played = extreme_uploads(mechanism, config.num_rounds, num_examples=largest)
    for info in played.values():
        std = float(info.noise_std)
        grid.check_grid(mechanism.grid, std=std, num_examples=largest, size=size)


def check_outputs(model: Model, data: FederatedData) -> None:
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


def check_loss(
    config: FederationSettings,
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


def check_utility(
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


def check_client_values(
    config: FederationSettings, data: FederatedData, mechanism: Mechanism, name: str
) -> None:
    """Refuses values of clients where they have no meaning; `name` is the mechanism's.

    Raises:
      ValueError: which setting, and what it must be.
    """
    if config.client_values == "none":
        return
    if mechanism.claim.central:
        raise ValueError(
            "client_values must be none where the noise hides a cohort's sum and no "
            f"single upload, as with mechanism {name} here: a value tells "
            f"of one upload; got {config.client_values}"
        )
    if data.examples.targets is not None and config.client_value_utility != "loss":
        raise ValueError(
            "client_value_utility must be loss for a data set with targets, which has "
            f"no accuracy, got {config.client_value_utility}"
        )


def check_weighting(
    config: FederationSettings, data: FederatedData, mechanism: Mechanism
) -> None:
    """Refuses weights by ε where clients have none of their own, or weigh the same.

    Raises:
      ValueError: what is missing, or which setting rules it out.
    """
    if config.weighting != "epsilon":
        return
    if data.promised[0] is None:
        raise ValueError("weighting=epsilon needs client_epsilons, each client's ε")
    if mechanism.uniform_weights or config.client_values != "none":
        raise ValueError(
            "weighting must not be epsilon where all clients of a cohort weigh the "
            "same, as this mechanism needs it, nor with client_values"
        )


def check_momentum(
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
