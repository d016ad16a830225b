"""What the audit plays beside mechanisms: the influence filter, a deployed sum."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from filter_games import contribution_player, vote_player
from sum_games import sums_player

from experiments.attack import audit_play
from experiments.attack.audit_cases import Case
from experiments.attack.audit_play import Prepared, Setting
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.attacks.audit import AuditGame
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.deploy import make_policy
from fedsvp_jax.influence import privacy

_VOTES = 4  # votes of one tester
_SUM: Mapping[str, Any] = {
    "noise_trust": "secure_aggregation",
    "noise_sampler": "discrete",
    "epsilon": 4.0,
    "colluders": 7,  # of ten clients
}
VOTES = Case("influence_filter", "votes", "replace_one", "votes", {"vote_epsilon": 1.0})
CONTRIBUTION = Case(
    "influence_filter",
    "update_clip",
    "replace_one",
    "contribution",
    {"contribution_noise": 2.0},
)
DEPLOYED = Case("gaussian", "update_clip", "add_remove", "deployed sum", _SUM)


def prepare(setting: Setting, case: Case) -> Prepared:
    """`audit_play.prepare`, for these cases too."""
    if case == DEPLOYED:
        return _prepare_sum(setting)
    if case.mechanism == "influence_filter":
        return _prepare_filter(setting, case)
    return audit_play.prepare(setting, case)


def _prepare_sum(setting: Setting) -> Prepared:
    """As "presence"; the adversary knows what 7 of the ten clients add."""
    config = DEPLOYED.settings(setting.config)
    policy = make_policy(config, min_num_examples=setting.num_examples)
    settings = policy.config
    honest = settings.cohort_size - settings.colluders
    far = 10 * float(settings.l2_norm_clip)
    game = AuditGame((far, 0.0), others=(1.0,) * (honest - 1))

    def claims(scores: Any) -> audit_play.Claims:
        return audit_play.claims_of_uploads(
            policy.mechanism,
            settings,
            scores,
            present=settings.cohort_size,
            target_delta=config.target_delta,
            pooled=True,
        )

    play = sums_player(policy, game, setting.num_games)
    return Prepared(play, claims, policy.mechanism.basis.proved)


def _prepare_filter(setting: Setting, case: Case) -> Prepared:
    """A tester's votes all change, or a contributor's batch."""
    config = dataclasses.replace(setting.config, **case.changes)
    if case.worlds == "votes":
        flip = privacy.flip_probability(config.vote_epsilon)
        play = vote_player(_VOTES, flip, setting.num_games)
        claims = of_votes(config, _VOTES)
        return Prepared(play, lambda _: claims, True)
    play = contribution_player(config, setting.num_games)
    claims = of_contributions(config)
    return Prepared(play, lambda _: claims, True)


def of_votes(config: ExperimentConfig, num_votes: int) -> audit_play.Claims:
    """The claim of one pass of the influence filter for a tester's whole test set."""
    delta = config.target_delta
    once = privacy.exact_vote_epsilon(privacy.flip_probability(config.vote_epsilon))
    composed = {
        method: composed_epsilon(method, 0.0, delta, responses=[(num_votes, once)])
        for method in ("rdp", "pld")
    }
    return {0: {"basic": num_votes * once, **composed, "basic_delta": 0.0}}


def of_contributions(config: ExperimentConfig) -> audit_play.Claims:
    """The claim of the filter's pass for a contributor's whole batch."""
    delta = config.target_delta
    cost = privacy.filter_cost(config, num_participants=1, delta=delta)  # no votes
    composed = {
        method: composed_epsilon(method, cost.precision, delta)
        for method in ("rdp", "pld")
    }
    return {
        0: {"basic": cost.basic_epsilon, **composed, "basic_delta": cost.delta},
    }
