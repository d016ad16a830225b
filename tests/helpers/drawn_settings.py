"""Settings drawn at random over what the accounting reads, and their account.

The account takes the steps of a run from its settings to its pages, with a simulated
upload in the place of training: resolve, solve, cap, record, sum up, write.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from law_of_noise import check_noise
from page_parts import guarantee_table
from promised import uploads_in_a_row

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import Account, Allowance, SpendingPlan, claims
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.common_settings import NoiseSettings
from fedsvp_jax.core.files import plain
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.federation import plan, solve_noise
from fedsvp_jax.federation.budget import account_of
from fedsvp_jax.mechanisms import Mechanism, noise_check
from fedsvp_jax.report import headline
from fedsvp_jax.round import cohort

MOST_ROUNDS = 4000  # that are simulated
ROUNDING = 1e-5  # relative: claims are float32 numbers


class Uploaded(NamedTuple):
    """What the clients of a round uploaded, as `ClientMetrics` has it."""

    client_id: np.ndarray
    weight: np.ndarray
    noise: NoiseInfo


class Drawn(NamedTuple):
    """What a run with these settings would say of its privacy."""

    config: ExperimentConfig
    cap: int
    account: Account
    summary: dict[str, Any]  # summary.json's part, before it is written
    planned: dict[str, Any]  # what the dry run shows of a client that always uploads
    text: str  # the terminal's line and the page's table
    sizes: np.ndarray  # (M,) training examples
    rounds: list[Uploaded]


SIZES: dict[str, tuple[Any, ...]] = {
    "num_clients": (1, 2, 7, 30),
    "cohort_size": (1, 2, 3, 15),
    "num_rounds": (1, 2, 5, 40, 400, 4000),
    "local_epochs": (1, 2, 5),
    "batch_size": (1, 10, 50),
    "max_uploads": (None, None, 1, 3),
    "colluders": (1, 2, 5, 1000),
    "noise_bits": (16, 24),
}
# In the place of a default, where there is none or where it asks for much ε.
ORDINARY = {"epsilon": 0.3, "delta": 1e-4, "l2_norm_clip": 1.0}
ORDINARY |= {"total_epsilon": 3.0, "vote_epsilon": 1.0, "contribution_noise": 1.0}
EXTREMES = (0.0, 1e-37, 1e-30, 1e-6, 1e-3, 0.5, 1e3, 1e6, 1e30, 3e38, math.inf)
PARTS = (mechanisms.BuiltInSettings, NoiseSettings, PromiseSettings)
NAMES = {field.name for part in PARTS for field in dataclasses.fields(part)}
NAMES |= {"cohorts", "weighting"}
NAMES |= {"influence_filter", "vote_epsilon", "contribution_noise"}
NAMES -= {"noise_examples_scale", "noise_bands", *SIZES}  # they fit few others
FIELDS = [f for f in dataclasses.fields(ExperimentConfig) if f.name in NAMES]


def near_or_extreme(name: str, ordinary: float, rng: np.random.Generator) -> float:
    """Mostly near the ordinary number, else an extreme one, if its limits allow it."""
    near = ordinary * 10 ** rng.uniform(-0.7, 0.7)
    number = near if rng.random() < 0.8 else rng.choice(EXTREMES)
    try:
        ExperimentConfig(**{name: float(number)})
    except ValueError:
        return ordinary
    return float(number)


def drawn(seed: int) -> dict[str, Any]:
    """The settings of one draw, each by its declaration; many of them are refused."""
    rng = np.random.default_rng(seed)

    def one(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    settings = {name: one(*values) for name, values in SIZES.items()}
    for field in FIELDS:
        if choices := field.metadata["choices"]:
            settings[field.name] = one(field.default, *choices)
        elif isinstance(field.default, bool):
            settings[field.name] = one(False, True)
        else:
            ordinary = ORDINARY.get(field.name, field.default)
            settings[field.name] = near_or_extreme(field.name, ordinary, rng)
    kept = {key: value for key, value in settings.items() if rng.random() < 0.5}
    kept |= {"mechanism": one(*mechanisms.mechanism_names()), "num_hbc_clients": 0}
    kept["num_clients"] = settings["num_clients"]
    if "total_epsilon" not in kept:
        kept.pop("solve", None)
    kept["cohort_size"] = min(settings["cohort_size"], kept["num_clients"])
    if kept.get("clipping") == "per_example" and one(False, True):
        kept |= {"relation": "add_remove", "batches": "poisson"}
        kept["local_steps"] = one(None, 1, 3)
    return kept


def account(seed: int, settings: dict[str, Any] | None = None) -> Drawn:
    """The account of `drawn(seed)`, or of other settings.

    Args:
      seed: of the settings, the clients' sizes, the cohorts and the R.
      settings: in the place of those that are drawn.

    Raises:
      ValueError: the settings are refused.
    """
    given = drawn(seed) if settings is None else settings
    config = resolve(ExperimentConfig(dataset="digits", **given))
    rng = np.random.default_rng((seed, 1))
    sizes = rng.integers(1, 300, config.num_clients)
    if rng.random() < 0.5:
        sizes[:] = 40
    ends = {
        "min_num_examples": int(sizes.min()),
        "max_num_examples": int(sizes.max()),
    }
    if config.solve == "noise":
        config = solve_noise(config, **ends)
    told, mechanism = plan.make_configured_mechanism(config, **ends)
    check_noise(mechanism, told, uniform=config.weighting == "uniform")
    before = account_of(
        config,
        mechanism,
        equal_weights=True,
        nominal="by chance" if rng.random() < 0.1 else "",
    )
    plan_before = SpendingPlan(before)
    kept = plan_before.allowance
    planned = claims.planned_row(before, plan_before.always)
    after, uploaded = before, []
    rounds = _rounds(config, mechanism, sizes, kept, rng)
    for clients in itertools.islice(rounds, MOST_ROUNDS):
        if config.influence_filter == "join" and after.passes == 0:
            after = after.record_pass()
        after = after.record(clients.client_id, clients.noise, clients.weight)
        uploaded.append(clients)
    summary = claims.summary(after)
    written = json.loads(json.dumps(plain(summary)))
    text = headline.filled("spent", summary) + guarantee_table(written["guarantees"])
    return Drawn(
        config,
        uploads_in_a_row(kept),
        after,
        summary,
        planned,
        text,
        *(sizes, uploaded),
    )


def _rounds(
    config: ExperimentConfig,
    mechanism: Mechanism,
    sizes: np.ndarray,
    kept: Allowance,
    rng: np.random.Generator,
) -> Iterator[Uploaded]:
    """By round; they end when nobody may upload any more."""
    spent = np.zeros(len(sizes), np.int32)
    uniform = config.weighting == "uniform" or mechanism.uniform_weights
    # The schedules' noise changes with the round; some rounds stand for those around.
    every = max(1, config.num_rounds // 3)
    dealt = rng.permutation(len(sizes))
    turns = len(sizes) // config.cohort_size if config.cohorts == "cyclic" else 1
    for round_num in range(config.num_rounds):
        if round_num % every == 0:
            ratios = rng.choice([0.0, 1.0, 0.3], len(sizes)).astype(np.float32)
            if not mechanism.needs_contribution:
                ratios[:] = 1.0
            upload = jax.vmap(noise_check.player(mechanism), (0, 0, None))
            infos = jax.tree.map(np.asarray, upload(sizes, ratios, np.int32(round_num)))
        able = np.flatnonzero(cohort.may_take_part(kept, spent, round_num))
        if not len(able):
            return
        if turns > 1:
            turn = dealt.reshape(turns, -1)[round_num % turns]
            able = np.intersect1d(able, turn)
        count = min(config.cohort_size, len(able))
        if count < kept.least_cohort:
            if turns == 1:
                return
            count = 0  # the turn of a cohort that is not whole
        chosen = np.sort(rng.choice(able, count, replace=False))
        spent[chosen] += kept.costs[round_num]
        share = np.ones(count) if uniform else sizes[chosen].astype(np.float64)
        weight = (share / max(share.sum(), 1.0)).astype(np.float32)
        noise = {name: leaf[chosen] for name, leaf in vars(infos).items()}
        yield Uploaded(chosen, weight, NoiseInfo(**noise))
