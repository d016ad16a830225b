"""What a mechanism is told in tests: the published set-up, with changes."""

import dataclasses
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import MechanismConfig

SET_UP = MechanismConfig(  # FedSVA (arXiv 2503.12958v2), sec. 4.1
    epsilon=0.2,
    delta=0.02,
    l2_norm_clip=20.0,
    num_rounds=400,
    num_clients=100,
    cohort_size=10,
    local_epochs=2,
    batch_size=50,
)


def published(name: str = "none", **changes: Any) -> MechanismConfig:
    """The set-up with changes; those that only `name` knows go to its own settings."""
    shared = {field.name for field in dataclasses.fields(MechanismConfig)}
    own = {key: value for key, value in changes.items() if key not in shared}
    told = {key: value for key, value in changes.items() if key in shared}
    kind = mechanisms.mechanism_settings(name)
    settings = kind(**own) if kind else None
    assert kind or not own, f"{name} has no settings {own}"
    return dataclasses.replace(SET_UP, settings=settings, **told)


def make(name: str, **changes: Any) -> mechanisms.Mechanism:
    """The mechanism of `published`."""
    return mechanisms.make_mechanism(name, published(name, **changes))
