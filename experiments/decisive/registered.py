"""What docs/appendix/preregistration.md registers: arms, seeds and hypotheses.

An arm is a way to compute one number per seed, by code that docs/decisive.md names by
its commit. Its rows are in docs/results/decisive/ARM.jsonl. A hypothesis is about rows
of one arm, or about the difference of two arms, paired by seed.
"""

from typing import NamedTuple

POOLS, CLIENT_PAIRS, RECORD_PAIRS = 20, 16, 10
CLASS_POOLS = 40  # with ten players each, single correlations vary more
PARTS = ("H1", "H2", "H3")


class Arm(NamedTuple):
    """One series of rows."""

    part: str  # of PARTS
    name: str
    seeds: int


class Hypothesis(NamedTuple):
    """An effect that would make guided noise worth having if it were positive.

    Attributes:
      arm: whose rows it is about.
      against: the arm that is subtracted, seed by seed; None for H1.
      outcome: the rows' number.
      scale: by which it is multiplied, so that more is better.
      worth: the smallest effect of interest, in the scaled unit.
    """

    name: str
    says: str
    arm: str
    against: str | None
    outcome: str
    scale: float
    worth: float


ARMS = (
    Arm("H1", "mnist_records", POOLS),
    Arm("H1", "mnist_records_mislabelled", POOLS),
    Arm("H1", "adult_records", POOLS),
    Arm("H1", "mnist_equal_classes", CLASS_POOLS),
    Arm("H1", "mnist_uneven_classes", POOLS),
    Arm("H2", "clients_constant", CLIENT_PAIRS),
    Arm("H2", "clients_worst_case", CLIENT_PAIRS),
    Arm("H2", "clients_laplace", CLIENT_PAIRS),
    Arm("H2", "clients_randomized_response", CLIENT_PAIRS),
    Arm("H2", "clients_spread", CLIENT_PAIRS),
    Arm("H3", "records_even", RECORD_PAIRS),
    Arm("H3", "records_public", RECORD_PAIRS),
    Arm("H3", "records_released", RECORD_PAIRS),
    Arm("H3", "records_unreleased", RECORD_PAIRS),
)


def _risk(letter: str, says: str, arm: str) -> tuple[Hypothesis, Hypothesis]:
    outcome = "rank_correlation"
    more, less = f"{says} is at more risk", f"{says} is at less risk"
    return (
        Hypothesis(f"H1{letter}1", more, arm, None, outcome, 1.0, 0.2),
        Hypothesis(f"H1{letter}2", less, arm, None, outcome, -1.0, 0.2),
    )


def _guided(number: int, says: str, arm: str) -> tuple[Hypothesis, Hypothesis]:
    letter = "abcd"[number]
    even = "clients_constant"
    return (
        Hypothesis(
            f"H2{letter}1", f"{says}: accuracy", arm, even, "accuracy", 100.0, 2.0
        ),
        Hypothesis(
            f"H2{letter}2",
            f"{says}: less membership",
            arm,
            even,
            "membership_area",
            -100.0,
            1.0,
        ),
    )


def _spread(name: str, says: str, arm: str) -> Hypothesis:
    return Hypothesis(name, says, arm, "records_even", "private_accuracy", 100.0, 2.0)


HYPOTHESES = (
    *_risk("a", "a valued record of MNIST", "mnist_records"),
    *_risk("b", "one of MNIST with wrong labels", "mnist_records_mislabelled"),
    *_risk("c", "a valued record of Adult", "adult_records"),
    *_risk("d", "a valued class of MNIST", "mnist_equal_classes"),
    *_risk("e", "a valued class of unequal size", "mnist_uneven_classes"),
    *_guided(0, "FedSVA, R fixed at 1", "clients_worst_case"),
    *_guided(1, "FedSVA, R released by Laplace noise", "clients_laplace"),
    *_guided(
        2, "FedSVA, R released by randomised response", "clients_randomized_response"
    ),
    *_guided(3, "budget spread by the released R", "clients_spread"),
    _spread("H3a", "budget by published ψ", "records_public"),
    _spread("H3b", "budget by released ψ", "records_released"),
    _spread("H3c", "budget by ψ itself, not proved", "records_unreleased"),
)
