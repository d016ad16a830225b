"""Which records are protected more: the scores, and factors of protection from them."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks import membership

from ..decisive import risk, small_models
from .federation import CLIENTS, RECORDS, RECORDS_PER_CLIENT, Federation, Records

PROTECTED, EXPOSED = 0.6, 1.4  # factors a of the clip; half of the records have each
PAIRS = 4000  # coalitions and complements of the records' game
STARTS = 16  # first weights over which a client's game is averaged
RELEASE_EPSILON = 1.0  # of the one bit that each client releases

_confidences = jax.vmap(membership.confidences, (0, None))


def confidences(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(M, n) float64: of n records under M networks."""
    return np.asarray(_confidences(jnp.asarray(logits), jnp.asarray(labels)), float)


def client_of(values: np.ndarray) -> np.ndarray:
    """(n,) from (CLIENTS,): each record gets its client's value."""
    return np.repeat(values, RECORDS_PER_CLIENT)


def record_values(
    federation: Federation, key: jax.Array
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(n,) Shapley values of the records, and those by either half of the pairs.

    The utility of a coalition is the validation accuracy of a network without noise.
    """
    pool, validation = federation.pool, federation.validation
    game = risk.Pool(
        *pool[:2], validation.inputs, validation.labels, federation.num_classes
    )
    return risk.values_of_records(game, key, PAIRS)


def contribution_ratios(
    records: Records, validation: Records, key: jax.Array, num_classes: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(clients,) R of each client, and those by either half of the first weights.

        R = psi_private/(psi_private + psi_other), cut to [0, 1]; 0 where the sum is 0

    The two players of a client's game are its private records and its other records;
    the values are exact, of the mean utility over `STARTS` networks.
    """
    client = np.arange(len(records.labels)) // RECORDS_PER_CLIENT
    sides = [client < 0, records.private, ~records.private, client >= 0]
    members = np.stack(
        [(client == k) & side for k in range(client[-1] + 1) for side in sides]
    )
    logits = small_models.outputs(
        jnp.tile(jax.random.split(key, STARTS), len(members)),
        np.repeat(members, STARTS, 0),
        records.inputs,
        records.labels,
        validation.inputs,
        num_classes=num_classes,
    )
    right = (logits.argmax(-1) == validation.labels).mean(-1)
    utilities = right.reshape(-1, len(sides), STARTS)

    def ratios(starts: slice) -> np.ndarray:
        none, private, other, both = utilities[..., starts].mean(-1).T
        value = (private - none + both - other) / 2
        total = both - none
        safe = np.where(total > 0, total, 1.0)
        return np.where(total > 0, np.clip(value / safe, 0, 1), 0.0)

    return ratios(slice(None)), [ratios(slice(0, None, 2)), ratios(slice(1, None, 2))]


def public_losses(federation: Federation, key: jax.Array) -> tuple[np.ndarray, ...]:
    """(n,) losses of the records under public networks, and of public records.

    Eight networks are trained on every other public record; the second array holds the
    losses of the public records that they were not trained on. A record's loss depends
    on this record and on public data alone.
    """
    pool, public = federation.pool, federation.public
    trained = np.arange(len(public.labels)) % 2 == 0
    logits = small_models.outputs(
        jax.random.split(key, 8),
        np.broadcast_to(trained, (8, len(trained))),
        public.inputs,
        public.labels,
        np.concatenate([pool.inputs, public.inputs]),
        num_classes=federation.num_classes,
    )
    labels = np.concatenate([pool.labels, public.labels])
    losses = -confidences(logits, labels).mean(0)
    return losses[:RECORDS], np.where(trained, np.nan, losses[RECORDS:])


def levels(protected: np.ndarray) -> np.ndarray:
    """(n,) factors: PROTECTED and EXPOSED, scaled to the mean 1."""
    factors = np.where(protected, PROTECTED, EXPOSED)
    return factors / factors.mean()


def most_of(score: np.ndarray, groups: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """(n,) bool: the half with the largest scores, in each group; ties by `draw`."""
    chosen = np.zeros(len(score), bool)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        order = rows[np.lexsort((draw[rows], -score[rows]))]
        chosen[order[: len(rows) // 2]] = True
    return chosen


def above_public_median(
    losses: np.ndarray, private: np.ndarray, public: np.ndarray, is_private: np.ndarray
) -> np.ndarray:
    """(n,) bool: losses above the public median of the same side of the attribute."""
    medians = [np.nanmedian(public[is_private == side]) for side in (False, True)]
    return losses > np.where(private, medians[1], medians[0])


def released(bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Randomised response: each bit is true with the chance e^eps/(1 + e^eps)."""
    chance = math.exp(RELEASE_EPSILON) / (1 + math.exp(RELEASE_EPSILON))
    return np.where(rng.random(bits.shape) < chance, bits, ~bits)


def factors_of_arms(
    federation: Federation,
    values: np.ndarray,
    risks: np.ndarray,
    losses: tuple[np.ndarray, ...],
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Arm -> (n,) factors a, of the arms that protect records.

    Args:
      federation: its members.
      values, risks: (n,) Shapley values and measured risks.
      losses: of `public_losses`.
      rng: of the placebo and of ties.
    """
    private = federation.pool.private
    ties = rng.random(RECORDS)

    def half(score: np.ndarray) -> np.ndarray:
        return levels(most_of(score, private, ties))

    high = above_public_median(losses[0], private, losses[1], federation.public.private)
    return {
        "uniform": np.ones(RECORDS),
        "records_placebo": half(rng.random(RECORDS)),
        "records_value_high": half(values),
        "records_value_low": half(-values),
        "records_public_loss_high": np.where(high, PROTECTED, EXPOSED),
        "records_risk_high": half(risks),
        "attribute": levels(private),
    }


def factors_by_client(
    federation: Federation,
    ratios: np.ndarray,
    threshold: float,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Arm -> (n,) factors a, of the arms that protect clients.

    Args:
      federation: its members.
      ratios: (CLIENTS,) R.
      threshold: above which a client's bit is true; public.
      rng: of the placebo, of ties, and of the releases.
    """
    everybody = np.zeros(CLIENTS, int)
    share = federation.pool.private.reshape(CLIENTS, -1).mean(1)
    ties = rng.random(CLIENTS)
    noisy = released(ratios > threshold, rng)

    def half(score: np.ndarray) -> np.ndarray:
        return levels(client_of(most_of(score, everybody, ties)))

    return {
        "clients_placebo": half(rng.random(CLIENTS)),
        "clients_ratio_high": half(ratios),
        "clients_ratio_low": half(-ratios),
        "clients_share_high": half(share),
        "clients_ratio_high_released": levels(client_of(noisy)),
        "clients_ratio_low_released": levels(client_of(~noisy)),
    }
