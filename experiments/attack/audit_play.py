"""One case of the audit: its games, its claims, and its rows for any seed.

The games of a case are compiled once and played with every seed's key.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fedsvp_jax.accounting import Account, Participation, SpendingPlan, composed_epsilon
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.attacks import audit, audit_training, epsilon_bounds
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core import prng
from fedsvp_jax.core.clips import CLIPS
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.settings import part
from fedsvp_jax.core.structs import Array
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.federation.plan import poisson_places
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, subsampling
from fedsvp_jax.round.local_training import TrainingRates, TrainingRecipe

from .audit_cases import Case, case_mechanism

_WIDE = 2048  # numbers in an upload whose noise scale is to be read
_NARROW = 8  # numbers in any other upload
_BEYOND = 10.0  # updates that are clipped are so many times as long as the clip
_PRESENT = 2  # clients in a partial cohort
_WEIGHTS = (0.7, 0.1, 0.1, 0.1)  # of a cohort in which one client is the largest
_BATCHES = 40  # so many times a secret batch's records the client has
_PRIVATE = 4  # one in so many of the client's records has the private attribute

ACCOUNTINGS = ("basic", "rdp", "pld")

# Round, from 0 -> accounting -> ε, and `basic_delta`, the δ of basic composition.
Claims = dict[int, dict[str, float]]


class Setting(NamedTuple):
    """Settings that all cases of one command share."""

    config: ResolvedConfig
    recipe: TrainingRecipe
    rates: TrainingRates
    num_examples: int
    num_games: int
    key: Array  # of real training


def make_setting(config: ResolvedConfig, num_examples: int, num_games: int) -> Setting:
    """Settings of the games.

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
    rates = TrainingRates(config.learning_rate, config.l2_norm_clip)
    key = prng.stream_key(prng.root_key(config.seed), prng.Stream.CANARY, 1)
    return Setting(config, recipe, rates, num_examples, num_games, key)


class Prepared(NamedTuple):
    """A case that is ready to be played.

    Attributes:
      play: key -> scores.
      claims: scores -> what is claimed of them.
      proved: whether the claims are proved, and about these two worlds.
    """

    play: audit.Player
    claims: Callable[[audit.Scores], Claims]
    proved: bool


def prepare(setting: Setting, case: Case) -> Prepared:
    """The case's game, compiled at its first use."""
    config, num_examples = setting.config, setting.num_examples
    if CLIPS[case.clipping].is_query:
        num_examples //= _PRIVATE
    if "secret batches" in case.worlds:
        num_examples = _BATCHES * config.batch_size
    settings, mechanism = case_mechanism(case, config, num_examples)
    pooled = "colluders" in case.changes
    present = settings.cohort_size if mechanism.basis.central else 1
    if case.worlds == "partial cohort":
        present = _PRESENT
    factors = (1.0,) * (present - 1 - (settings.colluders if pooled else 0))
    weights = None
    if case.worlds == "two uploads":
        factors = (-1.0,)
    if case.worlds == "unequal weights":
        weights = _WEIGHTS
        factors = tuple(weight / _WEIGHTS[0] for weight in _WEIGHTS[1:])
    game = audit.AuditGame(
        updates=_updates(setting, case, settings),
        ratios=(1.0, 0.0)
        if settings.contribution_release != "raw" or case.worlds == "ratio"
        else (1.0, 1.0),
        others=factors,
        num_examples=num_examples,
        admitted=_PRESENT if case.worlds == "thinned turns" else None,
        dimension=_WIDE if case.wide else _NARROW,
    )
    promise = None
    if case.promised:
        # Half of the uploads keep it, and one more would break it.
        uploads = max(1, config.num_rounds // 2)
        precision = uploads / float(mechanism.least_multiplier) ** 2
        exact = composed_epsilon("gdp", precision, config.target_delta)
        promise = PromiseSettings(
            target_delta=config.target_delta,
            total_epsilon=exact * 1.001,
            total_accounting="pld",
        )
        plan = SpendingPlan(
            Account.of(mechanism, part(Participation, settings), promise)
        )
        game = game._replace(allowance=plan.allowance)
    if CLIPS[case.clipping].in_steps:
        play = _training_player(setting, case, mechanism, settings, num_examples)
    else:
        transcript = partial(audit.transcript_of_uploads, mechanism, settings, game)
        play = audit.make_player(transcript, setting.num_games)
    claims = partial(
        claims_of_uploads,
        mechanism,
        settings,
        present=present,
        target_delta=config.target_delta,
        pooled=pooled,
        weights=weights,
        promised=promise.total_epsilon if promise else None,
    )
    return Prepared(play, claims, mechanism.basis.proved and case.claimed)


def claims_of_uploads(
    mechanism: Mechanism,
    settings: MechanismConfig,
    scores: audit.Scores,
    present: int,
    target_delta: float,
    pooled: bool = False,
    weights: Sequence[float] | None = None,
    promised: float | None = None,
) -> Claims:
    """The claims after the first and the last round; the larger of two worlds'.

    Args:
      mechanism: whose claim it is. Where it is about the average, its view is that of
        an observer who sees the average of a whole cohort.
      settings: of the mechanism.
      scores: with the noise that was applied in every round, if any.
      present: K′, how many of the cohort's K clients took part.
      target_delta: δ of RDP and PLD.
      pooled: whether the claim is the one against colluders who know their own noise.
      weights: of a cohort in whose average an observer sees the uploads; equal ones,
        where the claim is about the average.
      promised: the ε of a promise, which is one more claim.
    """
    central = mechanism.basis.central
    if weights is not None:
        planned = present = len(weights)
    else:
        planned = settings.cohort_size if central else 1
    shares = weights or ([1 / present] * planned if central else None)
    view = "colluders" if pooled else "observer" if shares else "server"
    participation = Participation(num_clients=planned, colluders=settings.colluders)
    worlds = [Account.of(mechanism, participation)] * 2
    claims, every = {}, np.arange(planned)
    for number, uploaded in enumerate(scores.uploaded):
        ids = np.where(uploaded & (every < present), every, -1)
        for world, account in enumerate(worlds):
            info = cell_of(scores.infos, (world, [number] * planned))
            worlds[world] = account.record(ids, info, shares)
        if number not in (0, len(scores.uploaded) - 1):
            continue
        claims[number] = {
            method: max(
                account.epsilon_spent(method, delta=target_delta, view=view)
                for account in worlds
            )
            for method in ACCOUNTINGS
        }
        claims[number]["basic_delta"] = max(account.delta_spent() for account in worlds)
        if promised is not None:
            claims[number]["promise"] = promised
    return claims


def _training_player(
    setting: Setting,
    case: Case,
    mechanism: Mechanism,
    settings: MechanismConfig,
    num_examples: int,
) -> audit.Player:
    """Games with noise in the local steps, of which an upload shows every one."""
    recipe = setting.recipe._replace(gradient="per_example")
    secret, rows = "secret batches" in case.worlds, settings.rows_per_person or 1
    if secret:
        recipe = recipe._replace(
            places=poisson_places(settings),
            local_steps=subsampling.most_steps(settings),
        )
    worlds = audit_training.neighbours(
        num_examples if secret else recipe.batch_size,
        rows,
        2.0 * float(settings.l2_norm_clip),
        left_out=case.relation == "add_remove",
        others_push=not secret,
    )
    is_summed = settings.noise_trust == "secure_aggregation"
    return audit_training.training_player(
        mechanism,
        recipe,
        setting.rates,
        worlds,
        settings.num_rounds,
        setting.num_games,
        num_others=settings.cohort_size - 1 if is_summed else 0,
        rows_per_person=settings.rows_per_person,
    )


def _updates(
    setting: Setting, case: Case, settings: MechanismConfig
) -> tuple[float, float]:
    """The client's update in the two worlds, along one axis: (inside, outside)."""
    if CLIPS[case.clipping].is_query:
        num_private = setting.num_examples // _PRIVATE
        return audit_training.private_record_updates(
            setting.recipe,
            setting.rates,
            settings,
            num_public=setting.num_examples - num_private,
            num_private=num_private,
            left_out=case.relation == "add_remove",
            key=setting.key,
        )
    clip = float(settings.l2_norm_clip)
    if CLIPS[case.clipping].bound_unproved and case.worlds in ("record", "client"):
        return audit_training.trained_updates(
            setting.recipe,
            setting.rates,
            setting.num_examples,
            1 if case.worlds == "record" else setting.num_examples,
            key=setting.key,
        )
    half, far = clip / setting.num_examples, _BEYOND * clip
    longer_than_the_clip = (far, 0.0 if case.relation == "add_remove" else -far)
    return {
        "granted": (half, -half),
        "ratio": (clip, clip),
        "past norm": (clip, clip / 100),
    }.get(case.worlds, longer_than_the_clip)


def rows_of(
    setting: Setting, case: Case, prepared: Prepared, seed: int
) -> list[Record]:
    """One seed's games: one row after one upload and one after all of them."""
    key = prng.stream_key(prng.root_key(seed), prng.Stream.CANARY)
    scores, target_delta = prepared.play(key), setting.config.target_delta
    rows = []
    for number, claims in prepared.claims(scores).items():
        bounds = partial(
            epsilon_bounds.lower_bounds,
            scores.inside[number],
            scores.outside[number],
            equal_noise=bool(scores.gaussian[number]),
            seed=seed,
        )
        deltas = {"basic": claims["basic_delta"]}
        p_values = {
            method: epsilon_bounds.p_value(
                claim, partial(bounds, delta=deltas.get(method, target_delta))
            )
            for method, claim in claims.items()
            if method != "basic_delta"
        }
        rows.append(
            {
                **case._asdict(),
                "proved": prepared.proved,
                "uploads": scores.uploaded[: number + 1].sum(),
                "claims": claims,
                "audited": bounds(delta=target_delta),
                "p_values": p_values,
            }
        )
    return rows
