"""Settings drawn at random over what the accounting reads, and their account.

The account takes the steps of a run from its settings to its pages, with a simulated
upload in the place of training: resolve, solve, cap, record, sum up, write.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from promised import uploads_in_a_row

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import Account, Allowance, claims
from fedsvp_jax.algorithm import cohort
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import client_promises
from fedsvp_jax.federation.budget import account_of
from fedsvp_jax.influence import admission
from fedsvp_jax.mechanisms import played
from fedsvp_jax.report import guarantees as guarantees_page
from fedsvp_jax.report import spent as spent_text
from fedsvp_jax.run.files import plain
from fedsvp_jax.structs import NoiseInfo

MOST_ROUNDS = 4000  # that are simulated
SENSITIVITIES = (
    "paper",
    "weight_clip",
    "update_clip",
    "per_example",
    "attribute_records",
)
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


def drawn(seed: int) -> dict[str, Any]:
    """The settings of one draw; many of them are refused."""
    rng = np.random.default_rng(seed)

    def one(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    def between(low: float, high: float) -> float:
        return float(10 ** rng.uniform(np.log10(low), np.log10(high)))

    def number(ordinary: float, low: float, high: float, *extremes: float) -> float:
        """Mostly near `ordinary`, sometimes anywhere, sometimes an extreme."""
        kind = rng.random()
        if kind < 0.6:
            return between(ordinary / 5, ordinary * 5)
        return between(low, high) if kind < 0.8 else one(low, high, *extremes)

    name = one(*mechanisms.mechanism_names())
    clients = one(1, 2, 7, 30)
    settings = {
        "mechanism": name,
        "num_clients": clients,
        "num_hbc_clients": 0,
        "cohort_size": one(1, 2, clients, max(1, clients // 2)),
        "num_rounds": one(1, 2, 5, 40, 400, 4000),
        "local_epochs": one(1, 2, 5),
        "batch_size": one(1, 10, 50),
        "epsilon": number(0.3, 1e-6, 1e6, 1e-30, 1e30, 1.0),
        "delta": number(1e-4, 1e-30, 0.999, 1e-37, 0.9999999, 0.5),
        "l2_norm_clip": number(1.0, 1e-6, 1e10, 1e-10, 3e38, math.inf),
        "sensitivity": one(*SENSITIVITIES),
        "relation": one("replace_one", "add_remove"),
        "calibration": one("classical", "classical", "analytic"),
        "allow_large_epsilon": bool(one(False, True)),
        "contribution_release": one(
            "raw", "worst_case", "laplace", "randomized_response"
        ),
        "release_epsilon": number(0.1, 1e-6, 10.0, 1e-30, 1e6),
        "target_delta": number(1e-5, 1e-12, 0.5, 1e-30, 0.999999),
        "total_epsilon": one(None, number(3.0, 1e-3, 1e4, 1e-30, 1e30)),
        "total_accounting": one("basic", "rdp", "pld"),
        "solve": one("uploads", "uploads", "noise"),
        "colluders": one(1, 2, 5, 1000),
        "weighting": one("examples", "uniform"),
        "noise_std": number(0.5, 1e-10, 1e10, 0.0, 1e-37, 3e38),
        "noise_multiplier": number(1.0, 1e-10, 1e10, 0.0, 1e-37, 3e38),
        "adaptive_clip": bool(one(False, True)),
        "clip_quantile": one(0.001, 0.5, 0.999),
        "clip_learning_rate": number(0.2, 1e-6, 1e3),
        "count_noise_std": number(3.0, 1e-6, 1e6),
        "noise_floor": number(0.1, 1e-10, 1e10),
        "exposures": number(1.0, 1e-6, 1e6),
        "downlink_noise": bool(one(False, True)),
        "decay": one(1e-6, 0.5, 0.995, 1.0),
        "contraction": one(1e-6, 0.5, 0.98, 1.0),
        "norm_mix": one(0.0, 0.5, 1.0),
        "influence_filter": one("none", "none", "join", "every_k"),
        "vote_epsilon": number(1.0, 1e-6, 1e3, 1e-30, 1e30, math.inf),
        "contribution_noise": number(1.0, 1e-6, 1e6, 0.0, 1e-37, 3e38),
        "noise_trust": one("nobody", "nobody", "secure_aggregation"),
        "noise_sampler": one("gaussian", "gaussian", "discrete"),
        "cohorts": one("drawn", "drawn", "cyclic"),
        "max_uploads": one(None, None, 1, 3),
    }
    ordinary = ["num_clients", "cohort_size", "num_hbc_clients", "mechanism"]
    if settings["sensitivity"] == "per_example" and one(False, True):
        poisson = {"batches": "poisson", "local_steps": one(None, 1, 3)}
        settings |= {"relation": "add_remove"} | poisson
        ordinary += ["sensitivity", "relation", *poisson]
    kept = {key: value for key, value in settings.items() if rng.random() < 0.6}
    return kept | {key: settings[key] for key in ordinary}


def account(
    seed: int, settings: dict[str, Any] | None = None, *, by_client: bool = False
) -> Drawn:
    """The account of `drawn(seed)`, or of other settings.

    Args:
      seed: of the settings, the clients' sizes, the cohorts and the R.
      settings: in the place of those that are drawn.
      by_client: whether clients are promised ε of their own, of total_epsilon a
        quarter, half, the whole or twice.

    Raises:
      ValueError: the settings are refused.
    """
    given = drawn(seed) if settings is None else settings
    if by_client:
        given = given | {"total_epsilon": given.get("total_epsilon") or 3.0}
    config = resolve(ExperimentConfig(dataset="digits", **given))
    rng = np.random.default_rng((seed, 1))
    sizes = rng.integers(1, 300, config.num_clients)
    if rng.random() < 0.5:
        sizes[:] = 40
    ends = {
        "min_num_examples": int(sizes.min()),
        "max_num_examples": int(sizes.max()),
    }
    epsilons = None
    if by_client:
        shares = rng.choice([0.25, 0.5, 1.0, 2.0], config.num_clients)
        epsilons = config.total_epsilon * shares
    groups = client_promises.groups_of(config, epsilons, **ends)
    for group in groups:
        sizes_of = group.told.min_num_examples, group.told.max_num_examples
        played.check_noise(group.mechanism, config.num_rounds, sizes=sizes_of)
    config = dataclasses.replace(groups[0].config, total_epsilon=config.total_epsilon)
    before = account_of(
        config,
        groups[0].mechanism,
        equal_weights=True,
        nominal="by chance" if rng.random() < 0.1 else "",
    )
    before = client_promises.promising(before, () if epsilons is None else groups)
    kept = before.plan.allowance
    most = [before, *before.parts][-1]  # of the largest ε, where each has its own
    planned = claims.planned_row(most, most.plan.always)
    after, uploaded = before, []
    rounds = _rounds(config, groups, sizes, kept, rng)
    for number, clients in enumerate(itertools.islice(rounds, MOST_ROUNDS), 1):
        if admission.num_passes(config, number) > after.passes:
            after = after.record_pass()
        after = after.record(clients.client_id, clients.noise, clients.weight)
        uploaded.append(clients)
    summary, text = _summed_up(config, after)
    return Drawn(
        config,
        uploads_in_a_row(kept._replace(budget=np.max(kept.budget))),
        after,
        summary,
        planned,
        text,
        *(sizes, uploaded),
    )


def _rounds(
    config: ExperimentConfig,
    groups: Sequence[client_promises.Group],
    sizes: np.ndarray,
    kept: Allowance,
    rng: np.random.Generator,
) -> Iterator[Uploaded]:
    """By round; they end when nobody may upload any more."""
    spent = np.zeros(len(sizes), np.int32)
    mechanism = groups[0].mechanism
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
            infos = _infos(groups, sizes, ratios, round_num)
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


def _infos(
    groups: Sequence[client_promises.Group],
    sizes: np.ndarray,
    ratios: np.ndarray,
    round_num: int,
) -> Any:
    """What the upload of each client says of its noise, by its own mechanism."""
    group_of = np.zeros(len(sizes), int)
    for number, group in enumerate(groups):
        group_of[list(group.clients)] = number
    found = [
        jax.vmap(played.player(group.mechanism), (0, 0, None))(
            jnp.asarray(sizes), jnp.asarray(ratios), jnp.int32(round_num)
        )
        for group in groups
    ]
    return jax.tree.map(
        lambda *leaves: np.stack(leaves)[group_of, np.arange(len(sizes))], *found
    )


def _summed_up(config: ExperimentConfig, after: Account) -> tuple[dict[str, Any], str]:
    summary = claims.summary(after)
    written = json.loads(json.dumps(plain(summary)))
    text = spent_text.spent_line(summary) + guarantees_page.table(written)
    return summary, text
