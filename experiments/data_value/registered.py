"""What docs/appendix/data_value.md registers: data sets, federations, hypotheses."""

from typing import NamedTuple

DATASETS = ("mnist", "adult")
CLIENT_DATASETS = ("mnist",)  # on Adult most R are 0 (docs/appendix/data_value.md)
FEDERATIONS = 400  # of each data set: seeds 0 to 399
STEPS = 60  # of a network's training, each with noise
NOISES = (1.2, 2.0, 3.6)  # sigma; the middle one is the uniform arm's reference
REFERENCE = NOISES[1]
RELEASE_EPSILON = 1.0  # of the one bit that each client releases
LEAST_AREA = 0.7  # of LiRA on private records without noise; below it: void
LEAST_RELIABILITY = 0.7  # of the scores that an arm ranks by; below it, no "no"
WORTH = 1.0  # points of accuracy: the smallest gain that is worth having
DELTA = 1e-5


class Hypothesis(NamedTuple):
    """An arm that gains accuracy against constant noise and against its placebo.

    Attributes:
      arm, placebo: names in a row's "arms".
      release: epsilon that the ledgers charge.
      proved: whether the ledgers' epsilon is proved (by formula) for this arm.
      reliability: the row's number, or None where nothing is estimated.
      datasets: on which it is asked.
    """

    name: str
    says: str
    arm: str
    placebo: str
    release: float
    proved: bool
    reliability: str | None
    datasets: tuple[str, ...]


def _of(
    name: str, says: str, arm: str, release: float, proved: bool, score: str | None
) -> Hypothesis:
    unit = arm.split("_")[0]
    asked = CLIENT_DATASETS if unit == "clients" else DATASETS
    return Hypothesis(name, says, arm, f"{unit}_placebo", release, proved, score, asked)


HYPOTHESES = (
    _of(
        "A1",
        "records of high value protected (FedSVA's direction), release not paid",
        "records_value_high",
        0.0,
        False,
        "value_reliability",
    ),
    _of(
        "A2",
        "records of low value protected, release not paid",
        "records_value_low",
        0.0,
        False,
        "value_reliability",
    ),
    _of(
        "A3",
        "records of high loss under a public network protected (needs no release)",
        "records_public_loss_high",
        0.0,
        True,
        None,
    ),
    _of(
        "A4",
        "clients of high R protected (FedSVA's direction), release paid",
        "clients_ratio_high_released",
        RELEASE_EPSILON,
        True,
        "ratio_reliability",
    ),
    _of(
        "A5",
        "clients of low R protected, release paid",
        "clients_ratio_low_released",
        RELEASE_EPSILON,
        True,
        "ratio_reliability",
    ),
)
# Every question that gets a verdict, in each ledger.
QUESTIONS = tuple(
    (one, name) for name in DATASETS for one in HYPOTHESES if name in one.datasets
)
LEDGERS = ("equal TPR", "equal worst epsilon", "equal mean epsilon")
