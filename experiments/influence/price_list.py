"""The price list that `experiments.influence --plan` prints."""

import math

from fedsvp_jax import influence
from fedsvp_jax.config import ExperimentConfig


def cost(config: ExperimentConfig, num_participants: int) -> influence.Guarantees:
    """What each participant pays, known in advance."""
    return influence.guarantees(
        num_participants=num_participants,
        vote_epsilon_published=config.vote_epsilon,
        noise_multiplier=config.contribution_noise,
        delta=config.target_delta,
    )


def lines(cost: influence.Guarantees) -> list[str]:
    """The price list for a terminal."""

    def number(value: float) -> str:
        return "inf" if math.isinf(value) else f"{value:.6g}"

    at = f"at delta {cost.delta:g}"
    return [
        f"a vote: f {number(cost.flip_probability)}, reported as it is with "
        f"probability {number(cost.keep_probability)}; epsilon "
        f"{number(cost.vote_published)} as published, {number(cost.vote)} exactly",
        f"a tester's test set, which answers {cost.num_votes} contributors: epsilon "
        f"{number(cost.test_set_basic)} by basic composition, "
        f"{number(cost.test_set_advanced)} by the advanced theorem, "
        f"{number(cost.test_set_pld)} by PLD ({at} both)",
        f"a contributor's batch, by its Gaussian: epsilon {number(cost.contribution)} "
        f"{at}, a budget of its own",
    ]
