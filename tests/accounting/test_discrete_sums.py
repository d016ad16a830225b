"""Discrete noise of several clients: what whoever sees their average may be told.

The oracle enumerates the uploads of clients with one number each. It shares no code
with the ledger.
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import epsilon_of, make

from fedsvp_jax.accounting import Account, Participation, claims
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.grid import grid_step
from fedsvp_jax.mechanisms.noise_check import player

pytestmark = pytest.mark.hole
DELTA = 1e-5
CLIPPED = {"clipping": "update_clip", "l2_norm_clip": 1.0, "delta": DELTA}
CLIPPED |= {"noise_sampler": "discrete", "noise_bits": 8, "cohort_size": 3}
ALONE = CLIPPED | {"epsilon": epsilon_of(1.5, DELTA)}  # std 3, for C = 1
SHARED = {"epsilon": epsilon_of(2.0, DELTA), "noise_trust": "secure_aggregation"}
SECURE = ("gaussian", CLIPPED | SHARED)
CENTRAL = ("dp_fedavg", CLIPPED | {"noise_multiplier": 1.5})


def rows(mechanism: Mechanism, sizes: Iterable[int], **who: Any) -> dict[str, float]:
    """ε by Rényi DP of one round, by adversary; `all copies` too where there are."""
    sizes = np.asarray(sizes, np.int32)
    info = jax.vmap(player(mechanism), (0, None, None))(
        sizes, np.float32(1), np.int32(0)
    )
    shares = np.ones(len(sizes)) if mechanism.uniform_weights else sizes
    taking_part = Participation(len(sizes), cohort_size=len(sizes), **who)
    account = Account.of(mechanism, taking_part)
    account = account.record(np.arange(len(sizes)), info, shares / shares.sum())
    found = claims.table(account, ("rdp",))
    return {
        f"{one.adversary} {one.copies}": one.epsilon
        for one in found
        if one.method == "rdp"
    }


def exact(move: int, std: float, average: Any, known: int, count: int = 3) -> float:
    """ε at DELTA of one who sees average(a, b, c) and knows `known` of the others.

    Uploads are discrete Gaussians of std, in steps; client 0's is 0 or `move`.
    """
    reach = np.arange(-int(5.5 * std) - 1, int(5.5 * std) + 2)
    chance = np.exp(-(reach**2) / (2 * std**2))
    chance /= chance.sum()
    free = count - known
    outputs, weights = [], []
    for first in (0, move):
        grids = np.meshgrid(reach + first, *[reach] * (free - 1), indexing="ij")
        uploads = [grid.ravel() for grid in grids] + [np.zeros(1, int)] * known
        outputs.append(average(*uploads))
        of = np.meshgrid(*[chance] * free, indexing="ij")
        weights.append(np.prod([one.ravel() for one in of], axis=0))
    values, places = np.unique(np.concatenate(outputs), return_inverse=True)
    size = len(outputs[0])
    p, q = (
        np.bincount(place, weight, len(values))
        for place, weight in zip((places[:size], places[size:]), weights, strict=True)
    )
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        over = max(
            np.maximum(one - np.exp(middle) * other, 0).sum()
            for one, other in ((p, q), (q, p))
        )
        low, high = (middle, high) if over > DELTA else (low, middle)
    return low


def in_float32(step: float, shares: np.ndarray) -> Any:
    """The server's average: each upload times its weight, added up in order."""
    parts = np.asarray(shares / shares.sum(), np.float32)

    def average(*uploads: np.ndarray) -> np.ndarray:
        total = np.float32(0)
        for part, upload in zip(parts, uploads, strict=True):
            total = total + np.float32(step) * upload.astype(np.float32) * part
        return total

    return average


@pytest.mark.parametrize("sizes", [(601, 599), (40, 40, 40), (7, 5, 3)])
def test_no_average_of_weighted_uploads_tells_more_than_its_row(sizes: tuple) -> None:
    """The observer's row was below what it is told, and called proved."""
    mechanism, std = make("gaussian", **ALONE), 3.0
    step = float(grid_step(mechanism.grid, jnp.float32(std)))
    average = in_float32(step, np.asarray(sizes, float))
    found = rows(mechanism, sizes)
    known = len(sizes) - 2  # two are left to enumerate
    who = ("outside observer of the final model 1", "honest-but-curious client 1")
    epsilon = exact(round(2 / step), std / step, average, known, len(sizes))
    assert found[who[known]] >= epsilon


@pytest.mark.parametrize(("name", "told"), [SECURE, CENTRAL])
@pytest.mark.parametrize("known", [0, 1])
def test_a_sum_of_residues_tells_no_more_than_its_row(
    name: str, told: dict[str, Any], known: int
) -> None:
    mechanism = make(name, **told)
    info = player(mechanism)(np.int32(40), np.float32(1), np.int32(0))
    std = float(info.noise_std)
    step = float(grid_step(mechanism.grid, info.noise_std))
    half = 2 ** (told["noise_bits"] - 1)

    def average(*uploads: np.ndarray) -> np.ndarray:
        whole = (sum(uploads) + half) % (2 * half) - half
        return np.float32(step / 3) * whole.astype(np.float32)

    move = round((1 if name == "dp_fedavg" else 2) / step)
    epsilon = exact(move, std / step, average, known)
    found = rows(mechanism, (40, 40, 40))
    who = ("outside observer of the final model 1", "honest-but-curious client 1")
    assert epsilon <= found[who[known]] < found["server 1"]


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(601, 599), (40, 40, 40), (9, 50, 200, 200)])
@pytest.mark.parametrize(
    "changes", [{}, {"clipping": "attribute_records", "noise_bits": 20}]
)
def test_no_row_is_below_the_servers_unless_residues_are_summed(
    changes: dict[str, Any], sizes: tuple, copies: int
) -> None:
    mechanism = make("gaussian", **ALONE | changes | {"cohort_size": len(sizes)})
    found = rows(mechanism, sizes, copies=copies)
    for number in {1, copies}:
        others = [value for name, value in found.items() if name.endswith(f" {number}")]
        assert len(others) == 4 and min(others) == found[f"server {number}"]
    assert "other clients' noise is not counted" in mechanism.basis.assumptions
