"""One accuracy on the test rows that may be published: a count with noise (P19).

No client trains on a test row, and which rows are for the test follows no value of
theirs. So a row moves the model or the count of right answers, never both, and the
larger of the two ε holds for it. The count moves by 1, and gets discrete Laplace noise
of the run's whole ε (the geometric mechanism: Ghosh, Roughgarden and Sundararajan
2009), less that of bounds that were bought. Where a person is the unit, a person's
rows, m at most, are all for the test or all for training, and the noise is of ε/m.
"""

import hashlib
import json
import math
import re

import jax
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.federation import Program
from fedsvp_jax.mechanisms.discrete_gaussian import discrete_laplace, seeded_words

_RECORD = r"(replace|leave) (one record|all rows of a person)"
_RISK = 0.05  # with which the interval misses, half of it for the noise
SPLIT = "which rows are for the test follows none of their values but the given client"
_ASSUMPTIONS = (
    "who counts the right answers sees the test rows, and is trusted",
    SPLIT,
    "nothing else that is scored on them is published",
)
_ONE_ROW = "a person has one row, for the test or at one client"
_ONE_SIDE = "whose a row is, is given, and all rows of a person are on one side"
_NOMINAL = "nominal"  # how a reason begins


def check(program: Program, loss: ExampleLoss | None) -> None:
    """Refuses scores that the ε of the run would not cover.

    Raises:
      ValueError: names the setting and what to do.
    """
    (config,) = program.configs
    if not config.publish_scores:
        return
    relation = program.mechanism.basis.relation
    if config.total_epsilon is None:
        raise ValueError("publish_scores needs total_epsilon, the ε that its noise has")
    bounds, each = program.data.bought
    if not bounds * each < config.total_epsilon:
        raise ValueError(
            "publish_scores has no ε left for its noise: the bounds of the schema "
            f"took {bounds * each:g} of total_epsilon = {config.total_epsilon:g}; "
            "raise it, or leave publish_scores out"
        )
    check_relation(relation)
    if loss is not None:
        raise ValueError(
            "publish_scores must be left out with a loss of your own, which counts no "
            "right answers"
        )


def check_relation(relation: str) -> re.Match[str]:
    """How it speaks of a row: (replace or leave, one record or those of a person).

    Raises:
      ValueError: it is of a whole client.
    """
    match = re.match(_RECORD, relation)
    if match is None:
        raise ValueError(
            f"publish_scores hides one test row, and this run is to hide more: "
            f"{relation}; leave it out, or test on rows of people who agreed "
            "(--test_data)"
        )
    return match


def noised_accuracy(right: np.ndarray, program: Program, summary: Record) -> Record:
    """The accuracy that may be published, as summary.json holds it.

    Args:
      right: (n,) bool, the test rows that the final model classifies rightly.
      program: of one cell.
      summary: of the run, with params_sha256 and the promise among its guarantees.

    Returns:
      accuracy, its 95 % interval and the number of rows; and the claim: epsilon, delta,
      status, adversary, relation, assumptions.
    """
    (config,) = program.configs
    promise = next(
        row for row in summary["guarantees"] if row["method"].startswith("promise")
    )
    limit = program.data.rows_per_person
    bounds, each = program.data.bought  # a test row moved them too
    epsilon = (float(promise["epsilon"]) - bounds * each) / (limit or 1)
    # Another model or other test rows are another release, with noise of its own.
    release = [
        summary["params_sha256"],
        program.data.fingerprint,
        config.validation_examples,
        epsilon,
    ]
    digest = hashlib.sha256(json.dumps(release).encode()).digest()
    key = prng.stream_key(cell_of(program.cells.root, 0), prng.Stream.SCORES)
    words = seeded_words(*jax.random.key_data(key).tolist(), *digest)
    count, rows = int(right.sum()) + discrete_laplace(epsilon, words), len(right)
    reasons = str(promise["assumptions"]).split("; ")
    nominal = [reason for reason in reasons if reason.startswith(_NOMINAL)]
    return {
        "accuracy": min(max(count, 0), rows) / rows,
        "interval": interval(count, rows, epsilon),
        "rows": rows,
        **promise,
        "adversary": "public",
        "relation": "replace one test row by any other"
        if limit is None
        else f"replace all test rows of a person (at most {limit})",
        "method": "discrete Laplace noise on the count of right answers",
        "assumptions": "; ".join(
            (*_ASSUMPTIONS, _ONE_ROW if limit is None else _ONE_SIDE, *nominal)
        ),
        "copies": 1,
    }


def interval(count: int, rows: int, epsilon: float) -> tuple[float, float]:
    """A 95 % interval, or a wider one, of the share of such rows that is right.

    The noise exceeds t with probability 2a^(t+1)/(1+a), a = exp(−ε), at most 2.5 % for
    the least such t. Around count ± t lie the ends of Clopper and Pearson (1934), which
    miss with at most 2.5 %.
    """
    from scipy import stats

    wide = math.ceil(math.log(4 / (_RISK * (1 + math.exp(-epsilon)))) / epsilon) - 1
    low, high = (
        stats.binomtest(min(max(end, 0), rows), rows).proportion_ci(1 - _RISK / 2)
        for end in (count - wide, count + wide)
    )
    return float(low.low), float(high.high)
