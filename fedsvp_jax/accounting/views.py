"""Who sees what of an upload, and through how much noise."""

import numpy as np

# What an adversary sees of a client's upload: the upload itself ("server"), or the
# cohort's average, of whose noise it knows the part of 0, 1 or h other clients.
VIEWS = ("server", "observer", "curious_client", "colluders")
AVERAGED = (
    "sees the average alone, over a secure channel to an honest server; the other "
    "clients add their noise honestly"
)
SEEN = {
    "server": ("server", "sees every upload"),
    "curious_client": (
        "honest-but-curious client",
        f"{AVERAGED}; it knows its own noise, and is taken to see every round",
    ),
    "colluders": (
        "honest-but-curious clients, {} colluding",
        f"{AVERAGED}; the colluders pool their noise",
    ),
    "observer": (
        "outside observer of the final model",
        f"{AVERAGED}; counted as if it saw every round's model, since no gain from "
        "hiding the earlier ones is proved here",
    ),
}


def averaged_multiplier(
    noise_multiplier: np.ndarray, noise_std: np.ndarray, weights: np.ndarray, known: int
) -> np.ndarray:
    """(K,) z_i of the average, when the noise of `known` others is known.

        z_i = sqrt(Σ_{j in H} p_j² σ_j²) / (p_i Δ_i), Δ_i = σ_i / z_i

    H leaves out the `known` clients other than i of the largest p_j σ_j; i's own
    noise always counts, so z_i is at least the upload's. 0 where the upload had no
    noise, and where the client weighs nothing or z_i is inf, inf.
    """
    variance = np.square(weights * noise_std)
    order = np.argsort(-variance, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    top = np.concatenate([[0.0], np.cumsum(variance[order])])
    count = np.minimum(known, len(order) - 1)
    # Among the others of i the largest `count` are the first ones of all, with the
    # next one in i's place when i is itself among them.
    within = rank < count
    removed = np.where(
        within, top[np.minimum(count + 1, len(order))] - variance, top[count]
    )
    left = np.maximum(variance.sum() - removed, variance)
    own = weights * noise_std
    ratio = np.sqrt(left / np.where(own > 0, np.square(own), 1.0))
    hidden = (weights > 0) & np.isfinite(noise_multiplier)
    averaged = np.where(own > 0, np.where(hidden, noise_multiplier, 0.0) * ratio, 0.0)
    return np.where(hidden, averaged, np.inf)
