"""The digest of what a run releases: runs that differ in it draw noise of their own.

Two runs with one seed and one draw of noise, but other updates or another σ, tell the
update: the noise cancels. So every setting that may change a released number goes into
the key of the noise (`prng.HIDING`), and so does the data's fingerprint, since a run
without one record is a neighbour. No setting says what code of one's own computes: with
it noise from a seed proves nothing, and secret noise does. What changes no released
number, or its rounding alone, keeps the draw: where the data, their schema and kept
features lie, what the server tests and when, how the work is laid out, and what a
built-in mechanism does not read (a sweep's cells have an ε, which `dp_fedavg` ignores).

T, the number of rounds, is left out where nothing follows it (`follows_num_rounds`). A
run of 10 rounds then is the first part of one of 20, to the bit, and publishing both
tells what the longer one tells. Where something follows T, the two share no draw.
"""

import dataclasses
import hashlib
import json
from typing import Any

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.common_settings import EvaluationSettings, ExecutionSettings
from fedsvp_jax.core.prng import Digest
from fedsvp_jax.mechanisms import Mechanism, unread_settings

PAIRED = (
    "paired_noise gives all runs of one seed the same draws of noise: "
    "of two published ones the noise cancels"
)
OWN_CODE = (
    "noise follows a seed, and a model, a loss or an aggregator of "
    "your own is in no setting: two runs that differ in it alone have the same noise; "
    "take secret_noise"
)
KEYED = (
    "nobody guesses the noise's secret key of 64 random bits (generator: Threefry, and "
    "of whole numbers Philox)"
)
_CHANGES_NOTHING = {
    field.name
    for settings in (EvaluationSettings, ExecutionSettings)
    for field in dataclasses.fields(settings)
} | {"data_dir", "features_dir", "schema", "test_data"}


def follows_num_rounds(config: ResolvedConfig, mechanism: Mechanism) -> bool:
    """Whether the first rounds would be others in a run of another length."""
    return (
        mechanism.follows_num_rounds
        or config.total_epsilon is not None
        or config.max_uploads is not None
        or config.influence_filter != "none"
        or config.batches == "poisson"  # room for a batch follows their number
        or config.learning_rate_schedule == "cosine"
    )


def run_digest(
    config: ResolvedConfig, mechanism: Mechanism, fingerprint: str
) -> Digest | None:
    """64 bits of SHA-256 of what decides a run's releases beside its seed.

    Settings at their defaults are left out, so a new one changes no run's bits.

    Args:
      config: resolved, its noise solved for; every setting that it has counts.

    Returns:
      None with --paired_noise.
    """
    if config.paired_noise:
        return None
    left_out = _CHANGES_NOTHING | unread_settings(config.mechanism) | {"num_rounds"}
    settings: dict[str, Any] = {
        field.name: value
        for field in dataclasses.fields(config)
        if field.name not in left_out
        and (value := getattr(config, field.name)) != field.default
    }
    if follows_num_rounds(config, mechanism):
        settings["num_rounds"] = config.num_rounds
    numbers = {
        name: float(value) if isinstance(value, int | float) else str(value)
        for name, value in settings.items()
    }
    text = json.dumps([numbers, fingerprint], sort_keys=True)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")
