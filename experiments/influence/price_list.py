"""What the filter costs each participant in privacy, as `--plan` prints it."""

import math

from fedsvp_jax import influence
from fedsvp_jax.config import ExperimentConfig


def cost(config: ExperimentConfig, num_participants: int) -> influence.Guarantees:
    """The cost of one pass, known before it."""
    return influence.guarantees(
        config,
        num_participants=num_participants,
        delta=config.target_delta,
        passes=1,
    )


def lines(cost: influence.Guarantees) -> list[str]:
    """The cost in sentences: of a vote, of a test set, of a contribution."""

    def number(value: float) -> str:
        return "inf" if math.isinf(value) else f"{value:.6g}"

    return [
        f"one vote: randomised with f = {number(cost.flip_probability)}, so reported "
        f"unchanged with probability {number(cost.keep_probability)}; epsilon "
        f"{number(cost.vote_published)} as published, {number(cost.vote)} exactly",
        f"a tester's test set, which votes on {cost.num_votes} contributors: epsilon "
        f"{number(cost.test_set_basic)} by basic composition; at delta {cost.delta:g} "
        f"epsilon {number(cost.test_set_advanced)} by advanced composition and "
        f"{number(cost.test_set_pld)} by PLD",
        "a contributor's batch, hidden by the noise on its contribution: epsilon "
        f"{number(cost.contribution)} at delta {cost.delta:g}",
        "all that one participant sends, contribution and votes together: epsilon "
        f"{number(cost.participant_pld)} at delta {cost.delta:g} by PLD",
    ]
