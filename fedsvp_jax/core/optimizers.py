"""The steps of the server and of the clients, by optax.

The server takes the average of the uploads as its step, or hands it to an optimiser as
the negative of a gradient (Reddi et al. 2021, arXiv 2003.00295, Algorithm 2). Δ is the
average, x the model, η the server's learning rate; all operations are by coordinate:

    sgd      u ← m·u + Δ                           x ← x + η·u    (FedAvgM for m > 0)
    adam     v ← β2·v + (1 − β2)·Δ²                x ← x + η·û/(√v̂ + τ)
    yogi     v ← v − (1 − β2)·Δ²·sign(v − Δ²)      x ← x + η·û/(√v̂ + τ)
    adagrad  v ← v + Δ², from τ²                   x ← x + η·Δ/√v

with u ← β1·u + (1 − β1)·Δ in adam and yogi, û = u/(1 − β1ᵗ) and v̂ = v/(1 − β2ᵗ). The
source leaves out this correction of the bias and starts v at τ²; theirs starts at 0.

All of that is computed from averages that were released, so no claim changes, save
where the server itself adds the noise after its step (`config.resolve` refuses that).
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax

from .settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class ServerSettings(Settings):
    """Server optimiser: what the server does with the average of the uploads."""

    server_optimizer: str = setting(
        "sgd",
        "How the server follows the average update. sgd: FedAvg, or FedAvgM with "
        "--server_momentum; adam: FedAdam; yogi: FedYogi; adagrad: FedAdagrad.",
        choices=("sgd", "adam", "yogi", "adagrad"),
    )
    server_learning_rate: float | None = setting(
        None,
        "Step size of the server. Default: 1 for sgd, 0.01 for the others.",
        above=0,
    )
    server_momentum: float = setting(
        0.0,
        "m of FedAvgM: u <- m * u + average update, w <- w + server_learning_rate * u "
        "(0: plain averaging).",
        at_least=0,
        below=1,
        needs="server_optimizer=sgd",
    )
    server_beta1: float = setting(
        0.9,
        "β1: how slowly the server's mean of the updates forgets.",
        at_least=0,
        below=1,
        needs="server_optimizer=adam|yogi",
    )
    server_beta2: float = setting(
        0.99,
        "β2: how slowly the server's mean of the squared updates forgets.",
        at_least=0,
        below=1,
        needs="server_optimizer=adam|yogi",
    )
    server_tau: float = setting(
        1e-3,
        "τ: updates far below it are not scaled up; the smaller, the more adaptive.",
        above=0,
        needs="server_optimizer=adam|yogi|adagrad",
    )


@dataclasses.dataclass(frozen=True)
class ClientSettings(Settings):
    """Client optimiser: how a client's local steps follow the gradient."""

    client_momentum: float = setting(
        0.0,
        "Momentum of a client's local steps; it starts anew in every round (0: plain "
        "SGD).",
        at_least=0,
        below=1,
    )
    learning_rate_schedule: str = setting(
        "constant",
        "The clients' learning rate by round t = 0, 1, …: constant; cosine: "
        "learning_rate * (1 + cos(πt/T))/2; exponential: learning_rate * "
        "learning_rate_decay^t.",
        choices=("constant", "cosine", "exponential"),
    )
    learning_rate_decay: float = setting(
        0.99,
        "Factor from one round's learning rate to the next.",
        above=0,
        at_most=1,
        needs="learning_rate_schedule=exponential",
    )
    proximal_mu: float = setting(
        0.0,
        "FedProx: weight mu of the term mu/2 ||w - w_global||^2 in the local loss "
        "(0: off).",
        at_least=0,
    )


def learning_rate(
    settings: ClientSettings, first: Any, num_rounds: int, round_num: Any
) -> Any:
    """() the clients' learning rate in a round, from 0; `first` is that of round 0."""
    if settings.learning_rate_schedule == "constant":
        return first
    schedule = (
        optax.cosine_decay_schedule(first, num_rounds)
        if settings.learning_rate_schedule == "cosine"
        else optax.exponential_decay(first, 1, settings.learning_rate_decay)
    )
    return schedule(jnp.float32(round_num))


def averages(settings: ServerSettings) -> bool:
    """Whether the server's step is the average itself: FedAvg."""
    return (
        settings.server_optimizer == "sgd"
        and settings.server_learning_rate == 1
        and settings.server_momentum == 0
    )


def server_optimizer(settings: ServerSettings) -> optax.GradientTransformation:
    """The optimiser of the table above, for the negative average as its gradient."""
    rate, tau = settings.server_learning_rate, settings.server_tau
    if settings.server_optimizer == "sgd":
        return optax.sgd(rate, momentum=settings.server_momentum or None)
    if settings.server_optimizer == "adagrad":
        return optax.adagrad(rate, initial_accumulator_value=tau**2, eps=0.0)
    betas = {"b1": settings.server_beta1, "b2": settings.server_beta2}
    if settings.server_optimizer == "adam":
        return optax.adam(rate, **betas, eps=tau)
    # Yogi with u and v from 0, where optax starts both at one positive number.
    yogi = optax.scale_by_yogi(**betas, eps=tau, initial_accumulator_value=0.0)
    return optax.chain(yogi, optax.scale_by_learning_rate(rate))
