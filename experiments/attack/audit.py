"""Audit: every printed ε beside a lower bound that canaries prove.

For each mechanism and sensitivity, two neighbouring worlds are played --audit_trials
times each through the mechanism's own code (fedsvp_jax/attacks/audit.py). The adversary
knows everything except which of the two worlds it sees. The pairs of worlds are the
worst that are known:

    granted     the upload moves by the claimed bound: tests noise and composition
    record      one record of real local training on a linear loss is replaced
    client      all of a client's records are replaced, in the same way
    update      the update is replaced by its opposite, both as long as the clip
    presence    an update as long as the clip against none (add or remove a client)
    ratio       the upload stays the same, R goes from 1 to 0 (fedsva, fedsdp)
    past norm   the length of the past update differs (the mechanism reestimation)

The claims are the ledger's, from the noise that was really applied: after one upload
and after all --num_rounds of them, by basic composition (at the sum of the δ), RDP and
PLD (at --target_delta). They hold against the server, or for dp_fedavg against whoever
sees the average.

  holds      the audit proves no more than any claim
  VIOLATED   it proves more than a claim about this pair of worlds allows
  no claim   it proves more than the printed number, which is not about this pair

An audited bound is the largest of three lower bounds (Clopper-Pearson, Gaussian, one
run). The Gaussian one is left out where the noise differs between the worlds, as in
"ratio" and "past norm": the two worlds are then not two shifted Gaussians.

Each row holds at 95 %. Many rows are printed, and none is corrected for the others.

  python -m experiments.attack --attack=audit --output_dir=runs/audit

No data set is read; --dataset only selects the defaults of other settings. Written to
--output_dir: config.json, pieces/ (one file per finished case, from which --resume
continues), results.json, audit.png.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import flags
from tqdm import tqdm

from fedsvp_jax import mechanisms, prng
from fedsvp_jax.accounting import Ledger
from fedsvp_jax.algorithm.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.attacks import audit, epsilon_bounds
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, make_mechanism
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json
from fedsvp_jax.structs import NoiseInfo

from .. import command, flag_values
from . import audit_results
from .audit_cases import Case, case_settings, cases_of
from .audit_results import ACCOUNTINGS
from .resumable import finished_or_made

DEFAULTS = {"num_rounds": 4, "delta": 1e-5, "noise_std": 1.0, "batch_size": 10}
_WIDE = 2048  # numbers in an upload whose noise scale is to be read
_NARROW = 8  # numbers in any other upload


def define_flags() -> None:
    """Defines what is audited and how often it is played."""
    flags.DEFINE_list(
        "audit_mechanisms",
        "all",
        "Mechanisms to audit; `all` takes all that add noise.",
    )
    flags.DEFINE_integer(
        "audit_trials",
        4000,
        "Games played in each world.",
        lower_bound=20,
        upper_bound=10**6,
    )
    flags.DEFINE_integer(
        "audit_examples",
        100,
        "|D|: number of the client's training examples.",
        lower_bound=1,
    )


class Setting(NamedTuple):
    """What all cases of one command share."""

    config: ExperimentConfig
    recipe: TrainingRecipe
    rates: TrainingRates
    num_examples: int
    num_rounds: int
    trials: int
    target_delta: float
    seed: int
    trained: dict[str, tuple[float, float]]  # worlds -> updates of real training


def updates_of(
    case: Case, settings: MechanismConfig, setting: Setting
) -> tuple[float, float]:
    """The client's update in the two worlds, along one axis: (inside, outside)."""
    clip = float(settings.l2_norm_clip)
    if case.worlds in setting.trained:
        return setting.trained[case.worlds]
    if case.worlds == "granted":
        half = clip / setting.num_examples
        return half, -half
    return {
        "update": (clip, -clip),
        "presence": (clip, 0.0),
        "ratio": (clip, clip),
        "past norm": (clip, clip / 100),
    }[case.worlds]


def claims(
    mechanism: Mechanism, infos: NoiseInfo, averaged: int, target_delta: float
) -> dict[int, dict[str, float]]:
    """ε by accounting after the first and the last round; the larger of two worlds.

    Args:
      mechanism: whose claims they are.
      infos: (2, T), the noise of the two worlds in every round.
      averaged: K. With K > 1 the claims are against whoever sees the average.
      target_delta: δ of RDP and PLD.

    Returns:
      Round, from 0 -> accounting -> ε, and `basic_delta`, the δ of basic composition.
    """
    rounds = np.shape(infos.noise_std)[1]
    view = "observer" if averaged > 1 else "server"
    ledgers = [Ledger(averaged, proved=mechanism.claim.proved) for _ in range(2)]
    epsilons = {}
    for number in range(rounds):
        for world, ledger in enumerate(ledgers):
            info = jax.tree.map(
                lambda leaf, w=world, t=number: np.repeat(leaf[w, t], averaged), infos
            )
            ledger.record(
                np.arange(averaged),
                round_num=number + 1,
                noise_multiplier=info.noise_multiplier,
                noise_std=info.noise_std,
                epsilon=info.epsilon,
                delta=info.delta,
                weights=np.full(averaged, 1 / averaged) if averaged > 1 else None,
            )
        if number not in (0, rounds - 1):
            continue
        by_method = {
            method: max(
                ledger.epsilon_spent(method, target_delta, view=view)
                for ledger in ledgers
            )
            for method in ACCOUNTINGS
        }
        by_method["basic_delta"] = max(ledger.delta_spent() for ledger in ledgers)
        epsilons[number] = by_method
    return epsilons


def has_equal_noise(infos: NoiseInfo, num_rounds: int) -> bool:
    """Whether both worlds had the same noise std in each of the first rounds.

    Args:
      infos: (2, T), the noise of the two worlds in every round.
      num_rounds: how many of the T rounds count.
    """
    return all(
        np.array_equal(stds[0, :num_rounds], stds[1, :num_rounds])
        for stds in (infos.noise_std, infos.step_noise_std)
    )


def audit_case(setting: Setting, case: Case) -> list[dict[str, Any]]:
    """Plays a case: one row after one upload and one after all of them."""
    settings = case_settings(case, setting.config, setting.num_examples)
    mechanism = make_mechanism(case.mechanism, settings)
    root = prng.stream_key(prng.root_key(setting.seed), prng.Stream.CANARY)
    game_key, run_key = jax.random.split(root)
    averaged = settings.cohort_size if mechanism.claim.central else 1
    if case.sensitivity == "per_example":
        recipe = dataclasses.replace(setting.recipe, gradient="per_example")
        scores = audit.play_training(
            mechanism,
            recipe,
            setting.rates,
            audit.neighbours(
                setting.num_examples, 1, 2.0 * float(settings.l2_norm_clip)
            ),
            setting.num_rounds,
            setting.trials,
            key=game_key,
        )
        updates = (math.nan, math.nan)
    else:
        updates = updates_of(case, settings, setting)
        game = audit.Game(
            updates=updates,
            ratios=(1.0, 0.0) if case.worlds == "ratio" else (1.0, 1.0),
            num_examples=setting.num_examples,
            num_rounds=setting.num_rounds,
            averaged=averaged,
            dimension=_WIDE if case.wide else _NARROW,
        )
        scores = audit.play(mechanism, game, setting.trials, key=game_key)
    claimed = claims(mechanism, scores.infos, averaged, setting.target_delta)
    rows = []
    for number, promised in claimed.items():
        inside, outside = scores.inside[number], scores.outside[number]
        one_run = None
        if averaged == 1:
            one_run = epsilon_bounds.by_coins(inside, outside, seed=setting.seed)
        elif number == 0 and mechanism.server is None:
            canaries = min(setting.trials, 1000)
            crowd = dataclasses.replace(
                settings, num_clients=canaries, cohort_size=canaries
            )
            one_run = audit.one_average(
                make_mechanism(case.mechanism, crowd),
                updates[0],
                canaries,
                key=run_key,
            )
        bounds = partial(
            epsilon_bounds.lower_bounds,
            inside,
            outside,
            one_run,
            equal_noise=has_equal_noise(scores.infos, number + 1),
            seed=setting.seed,
        )
        at_target = bounds(delta=setting.target_delta)
        at_basic = (
            bounds(delta=promised["basic_delta"])
            if 0 < promised["basic_delta"] < 1
            else dict.fromkeys(at_target, 0.0)
        )
        beaten = [
            method
            for method in ACCOUNTINGS
            if promised[method]
            < max((at_basic if method == "basic" else at_target).values())
        ]
        rows.append(
            {
                **case._asdict(),
                "proved": mechanism.claim.proved and case.claimed,
                "uploads": number + 1,
                "distance": abs(updates[0] - updates[1]),
                "sensitivity_claimed": float(scores.infos.sensitivity[0, number]),
                "claims": promised,
                "audited": at_target,
                "audited_at_basic_delta": at_basic,
                "beaten": beaten,
                "status": (
                    "holds"
                    if not beaten
                    else "VIOLATED"
                    if case.claimed
                    else "no claim"
                ),
            }
        )
    return rows


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Audits every case of every mechanism."""
    flag_values.refuse_flags(
        values,
        ("mechanism", "sensitivity", "relation"),
        "audit_mechanisms names the mechanisms, and all their cases are audited",
    )
    flag_values.refuse_flags(
        values,
        ("contribution_release", "release_epsilon", "clip_weights", "downlink_noise"),
        "the audit plays every mechanism without it",
    )
    audited = list(values.audit_mechanisms)
    if audited == ["all"]:
        audited = [name for name in mechanisms.mechanism_names() if name != "none"]
    if "none" in audited:
        raise ValueError(
            "audit_mechanisms must add noise, got 'none', which has no ε to audit"
        )
    cases = []
    for name in audited:
        plan.mechanism_config(dataclasses.replace(config, mechanism=name))
        cases += cases_of(name, config)
    if values.audit_examples < config.batch_size:
        raise ValueError(
            f"audit_examples must be at least batch_size = {config.batch_size}, got "
            f"{values.audit_examples}"
        )
    recipe = TrainingRecipe(
        batch_size=config.batch_size,
        local_epochs=config.local_epochs,
        gradient="clipped_mean",
    )
    rates = TrainingRates(config.learning_rate, config.l2_norm_clip, 0.0, 0.0)
    setting = Setting(
        config=config,
        recipe=recipe,
        rates=rates,
        num_examples=values.audit_examples,
        num_rounds=config.num_rounds,
        trials=values.audit_trials,
        target_delta=config.target_delta,
        seed=config.seed,
        trained={
            worlds: audit.trained_updates(
                recipe,
                rates,
                values.audit_examples,
                replaced,
                key=prng.stream_key(prng.root_key(config.seed), prng.Stream.CANARY, 1),
            )
            for worlds, replaced in (("record", 1), ("client", values.audit_examples))
        },
    )
    folder = RunFolder(values.output_dir)
    chosen = {
        "attack": values.attack,
        "audit_mechanisms": audited,
        "audit_trials": values.audit_trials,
        "audit_examples": values.audit_examples,
    }
    folder.start(
        dataclasses.asdict(config) | environment() | chosen, resume=values.resume
    )
    rows: list[dict[str, Any]] = []
    for case in tqdm(cases, unit="case", disable=None):
        rows += finished_or_made(folder, case.name, partial(audit_case, setting, case))
    write_json(
        folder.path / "results.json",
        {"attack": values.attack, "trials": values.audit_trials, "rows": rows},
    )
    audit_results.draw(folder.path / "audit.png", rows)
    print(audit_results.terminal_table(rows))
    print(audit_results.verdicts(rows))
    names = ("config.json", "results.json", "audit.png")
    command.print_files(folder.path / name for name in names)
