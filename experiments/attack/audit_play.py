"""One case of the audit: its games, its claims, and its rows for any seed.

The games of a case are compiled once and played with every seed's key.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.accounting import Account, Participation, composed_epsilon
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.attacks import (
    audit,
    audit_bands,
    audit_cohorts,
    audit_filter,
    audit_sums,
    audit_training,
    epsilon_bounds,
)
from fedsvp_jax.attacks.audit import Player, Scores
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import prng
from fedsvp_jax.core.clips import CLIPS
from fedsvp_jax.deploy import make_policy
from fedsvp_jax.influence import pipeline
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    make_mechanism,
    subsampling,
)
from fedsvp_jax.round.local_training import TrainingRates, TrainingRecipe

from . import audit_claims
from .audit_cases import (
    ASKED_LATER,
    BANDS,
    COLLUDERS,
    FILTER,
    IN_SUM,
    PARTIAL,
    PERSON,
    PROMISED,
    SECRET,
    SEVERAL,
    SUMMED,
    TURNS,
    UNEQUAL,
    Case,
    case_settings,
)
from .audit_claims import Claims

_WIDE = 2048  # numbers in an upload whose noise scale is to be read
_NARROW = 8  # numbers in any other upload
_BEYOND = 10.0  # updates that are clipped are so many times as long as the clip
_PRESENT = 2  # clients in a partial cohort
_WEIGHTS = (0.7, 0.1, 0.1, 0.1)  # of a cohort in which one client is the largest
_VOTES = 4  # votes of one tester
_BATCHES = 40  # so many times a secret batch's records the client has
_SECRET = (SECRET, SEVERAL, SUMMED, PERSON)
_PRIVATE = 4  # one in so many of the client's records has the private attribute

Row = dict[str, Any]


class Setting(NamedTuple):
    """Settings and updates that all cases of one command share."""

    config: ExperimentConfig
    recipe: TrainingRecipe
    rates: TrainingRates
    num_examples: int
    num_games: int
    trained: dict[str, tuple[float, float]]  # worlds -> updates of real training


def make_setting(
    config: ExperimentConfig, num_examples: int, num_games: int
) -> Setting:
    """Settings of the games, and the updates of real local training.

    The client has |D| = `num_examples`, and each world is played `num_games` times.

    Raises:
      ValueError: the client has fewer examples than a batch.
    """
    if num_examples < config.batch_size:
        raise ValueError(
            f"audit_examples must be at least batch_size = {config.batch_size}, got "
            f"{num_examples}"
        )
    recipe = TrainingRecipe(
        batch_size=config.batch_size,
        local_epochs=config.local_epochs,
        gradient="clipped_mean",
        momentum=config.client_momentum,
    )
    rates = TrainingRates(config.learning_rate, config.l2_norm_clip, 0.0, 0.0)
    key = prng.stream_key(prng.root_key(config.seed), prng.Stream.CANARY, 1)
    trained = {
        worlds: audit_training.trained_updates(
            recipe, rates, num_examples, replaced, key=key
        )
        for worlds, replaced in (("record", 1), ("client", num_examples))
    }
    return Setting(config, recipe, rates, num_examples, num_games, trained)


class Prepared(NamedTuple):
    """A case that is ready to be played.

    Attributes:
      play: key -> scores.
      claims: scores -> what is claimed of them.
      proved: whether the claims are proved, and about these two worlds.
    """

    play: Player
    claims: Callable[[Scores], Claims]
    proved: bool


def prepare(setting: Setting, case: Case) -> Prepared:
    """The case's game, compiled at its first use."""
    if case.mechanism == FILTER:
        return _prepare_filter(setting, case)
    if case.worlds == IN_SUM:
        return _prepare_sum(setting, case)
    config = setting.config
    num_examples = setting.num_examples // (
        _PRIVATE if CLIPS[case.clipping].asks else 1
    )
    if case.worlds in _SECRET:
        num_examples = _BATCHES * config.batch_size
    settings = case_settings(case, config, num_examples)
    mechanism = make_mechanism(case.mechanism, settings)
    pooled = case.worlds == COLLUDERS
    present = settings.cohort_size if mechanism.claim.central else 1
    if case.worlds == PARTIAL:
        present = _PRESENT
    claims = partial(
        audit_claims.of_uploads,
        mechanism,
        settings,
        present=present,
        target_delta=config.target_delta,
        pooled=pooled,
        weights=_WEIGHTS if case.worlds == UNEQUAL else None,
    )
    proved = mechanism.claim.proved and case.claimed
    if CLIPS[case.clipping].in_steps:
        play = _training_player(setting, case, mechanism, settings, num_examples)
        return Prepared(play, claims, proved)
    updates, plan = _updates(setting, case, settings), None
    if case.worlds in PROMISED:
        promise = promise_of(config, mechanism, uploads=max(1, config.num_rounds // 2))
        plan = Account.of(mechanism, Participation.of(settings), promise).plan
        claims = partial(_with_promise, claims, promise)
    if plan is not None and case.worlds in TURNS:
        turns = audit_cohorts.Turns(
            updates[0],
            settings.num_clients,
            settings.cohort_size,
            settings.num_rounds,
            plan.allowance,
            present=settings.cohort_size if case.worlds == TURNS[0] else _PRESENT,
        )
        play = audit_cohorts.turns_player(mechanism, turns, setting.num_games)
        return Prepared(play, claims, proved)
    sees_release = case.worlds in ("laplace", "randomized response")
    unknown = present - 1 - (settings.colluders if pooled else 0)
    game = audit.Game(
        updates=updates,
        ratios=(1.0, 0.0) if sees_release or case.worlds == "ratio" else (1.0, 1.0),
        released=settings if sees_release else None,
        adaptive=settings if case.worlds == "adaptive clip" else None,
        others=_other_factors(case, unknown),
        num_examples=num_examples,
        num_rounds=config.num_rounds,
        asked_from=settings.private_from if case.worlds == ASKED_LATER else 0,
        max_uploads=plan.most_uploads if plan else None,
        dimension=_WIDE if case.wide else _NARROW,
    )
    if case.worlds == BANDS:
        play = audit_bands.bands_player(mechanism, settings, game, setting.num_games)
    else:
        play = audit.upload_player(mechanism, game, setting.num_games)
    return Prepared(play, claims, proved)


def _other_factors(case: Case, unknown: int) -> tuple[float, ...]:
    """Factors of the other clients' uploads in the score; the client's own is 1."""
    if case.worlds == "two uploads":
        return (-1.0,)
    if case.worlds == UNEQUAL:
        return tuple(weight / _WEIGHTS[0] for weight in _WEIGHTS[1:])
    return (1.0,) * unknown


def _training_player(
    setting: Setting,
    case: Case,
    mechanism: Mechanism,
    settings: MechanismConfig,
    num_examples: int,
) -> Player:
    """Games with noise in the local steps, of which an upload shows every one."""
    size, rounds = setting.config.batch_size, setting.config.num_rounds
    recipe = dataclasses.replace(setting.recipe, gradient="per_example")
    secret = case.worlds in _SECRET
    if secret:
        steps = subsampling.most_steps(settings)
        recipe = dataclasses.replace(
            recipe,
            places=subsampling.poisson_places(
                size, num_examples, rounds * steps, settings.rows_per_person or 1
            ),
            local_steps=steps,
        )
    worlds = audit_training.neighbours(
        num_examples if secret else size,
        settings.rows_per_person or 1,
        2.0 * float(settings.l2_norm_clip),
        left_out=case.relation == "add_remove",
        others_push=not secret,
    )
    return audit_training.training_player(
        mechanism,
        recipe,
        setting.rates,
        worlds,
        rounds,
        setting.num_games,
        num_others=settings.cohort_size - 1 if case.worlds == SUMMED else 0,
        rows_per_person=settings.rows_per_person,
    )


def _updates(
    setting: Setting, case: Case, settings: MechanismConfig
) -> tuple[float, float]:
    """The client's update in the two worlds, along one axis: (inside, outside)."""
    if CLIPS[case.clipping].asks:
        num_private = setting.num_examples // _PRIVATE
        return audit_training.private_record_updates(
            setting.recipe,
            setting.rates,
            settings,
            num_public=setting.num_examples - num_private,
            num_private=num_private,
            left_out=case.relation == "add_remove",
            key=prng.stream_key(
                prng.root_key(setting.config.seed), prng.Stream.CANARY, 1
            ),
        )
    clip = float(settings.l2_norm_clip)
    if case.worlds in setting.trained:
        return setting.trained[case.worlds]
    half, far = clip / setting.num_examples, _BEYOND * clip
    longer_than_the_clip = (far, 0.0 if case.relation == "add_remove" else -far)
    return {
        "granted": (half, -half),
        "ratio": (clip, clip),
        "past norm": (clip, clip / 100),
    }.get(case.worlds, longer_than_the_clip)


def promise_of(
    config: ExperimentConfig, mechanism: Mechanism, uploads: int
) -> PromiseSettings:
    """A promise that so many uploads keep and one more would break."""
    exact = composed_epsilon(
        "gdp",
        uploads / float(mechanism.least_multiplier) ** 2,
        config.target_delta,
    )
    return PromiseSettings(
        target_delta=config.target_delta,
        total_epsilon=exact * 1.001,
        total_accounting="pld",
    )


def _with_promise(
    claims: Callable[[Scores], Claims], promise: PromiseSettings, scores: Scores
) -> Claims:
    return {
        number: row | {"promise": float(promise.total_epsilon or 0.0)}
        for number, row in claims(scores).items()
    }


def _prepare_filter(setting: Setting, case: Case) -> Prepared:
    config = case.settings(setting.config)
    rates = pipeline.filter_rates(config)
    if case.worlds == "votes":
        play = audit_filter.vote_player(
            _VOTES, float(rates.flip_probability), setting.num_games
        )
        claims = audit_claims.of_votes(config, _VOTES)
        return Prepared(play, lambda _: claims, True)
    passes = config.num_rounds
    play = audit_filter.contribution_player(rates, passes, setting.num_games)
    claims = audit_claims.of_contributions(config, passes)
    return Prepared(play, lambda _: claims, True)


def _prepare_sum(setting: Setting, case: Case) -> Prepared:
    config, num_examples = case.settings(setting.config), setting.num_examples
    policy = make_policy(config, min_num_examples=num_examples)
    settings, far = policy.config, _BEYOND * float(policy.config.l2_norm_clip)
    play = audit_sums.sums_player(
        policy,
        np.eye(1, _NARROW, dtype=np.float32)[0] * np.float32(far),
        settings.cohort_size - settings.colluders,
        num_rounds=config.num_rounds,
        num_games=setting.num_games,
    )
    of_uploads = partial(
        audit_claims.of_uploads, policy.mechanism, settings, pooled=True
    )
    claims = partial(
        of_uploads, present=settings.cohort_size, target_delta=config.target_delta
    )
    return Prepared(play, claims, policy.mechanism.claim.proved)


def rows_of(setting: Setting, case: Case, prepared: Prepared, seed: int) -> list[Row]:
    """One seed's games: one row after one upload and one after all of them."""
    key = prng.stream_key(prng.root_key(seed), prng.Stream.CANARY)
    scores = prepared.play(key)
    rows = []
    for number, claims in prepared.claims(scores).items():
        inside, outside = scores.inside[number], scores.outside[number]
        bounds = partial(
            epsilon_bounds.lower_bounds,
            inside,
            outside,
            epsilon_bounds.by_coins(inside, outside, seed=seed),
            equal_noise=bool(scores.gaussian[number]),
            seed=seed,
        )
        deltas = {
            method: claims["basic_delta"]
            if method == "basic"
            else setting.config.target_delta
            for method in claims
            if method != "basic_delta"
        }
        rows.append(
            {
                **case._asdict(),
                "proved": prepared.proved,
                "uploads": int(scores.uploaded[: number + 1].sum()),
                "claims": claims,
                "audited": bounds(delta=setting.config.target_delta),
                "audited_at_basic_delta": (
                    bounds(delta=claims["basic_delta"])
                    if claims["basic_delta"] < 1
                    else {"clopper_pearson": 0.0}
                ),
                "p_values": {
                    method: epsilon_bounds.p_value(
                        claims[method], partial(_largest, bounds, delta)
                    )
                    for method, delta in deltas.items()
                },
            }
        )
    return rows


def _largest(
    bounds: Callable[..., dict[str, float]], delta: float, level: float
) -> float:
    if not delta < 1:
        return 0.0
    return max(bounds(delta=delta, significance=level).values())
