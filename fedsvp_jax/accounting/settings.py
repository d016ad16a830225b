"""The settings of a promise: --total_epsilon and how it is counted."""

import dataclasses

from fedsvp_jax.core.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class PromiseSettings(Settings):
    """Promise: what a client may spend over the run, and how it is counted."""

    target_delta: float = setting(
        1e-5, "δ at which RDP and PLD report the ε that was spent.", above=0, below=1
    )
    total_epsilon: float | None = setting(
        None,
        "A promise: no client's ε over the run exceeds it, the influence filter's "
        "events included. Clients whose next upload would exceed it are not asked; the "
        "run stops when none is left. With dp_fedavg it is kept against an outside "
        "observer of the average, not against the clients of a cohort, who know their "
        "own part of the noise; with noise_trust=secure_aggregation against colluders "
        "too. Both need whole cohorts, and stop when none is left.",
        above=0,
    )
    total_accounting: str = setting(
        "rdp",
        "How --total_epsilon is counted.",
        choices=("basic", "rdp", "pld"),
        needs="total_epsilon",
    )
    solve: str = setting(
        "uploads",
        "What --total_epsilon decides. uploads: how often a client may upload, at the "
        "noise that is set. noise: the least noise with which a client may upload in "
        "every round.",
        choices=("uploads", "noise"),
        needs="total_epsilon",
    )
