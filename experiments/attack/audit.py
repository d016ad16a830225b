"""Audit: every ε that is printed, beside what canaries prove it to be at least.

For each mechanism and sensitivity, neighbouring worlds are played --audit_trials times
each through the mechanism's own code (fedsvp_jax/attacks/audit.py). The adversary knows
all but which world it is, and the worlds are the worst that are known:

    granted     the upload moves by the claimed bound: tests noise and composition
    record      one record of real local training on a linear loss is replaced
    client      all of a client's records are replaced, in the same way
    update      the update is replaced by its opposite, both as long as the clip
    presence    the update against none (add or remove a client)
    ratio       the upload stays, R goes from 1 to 0 (fedsva, fedsdp)
    past norm   the past update's length is another (the mechanism sensitivity)

Claims are the ledger's, from what was really applied: after one upload and after all
--num_rounds of them, by basic composition (at the sum of the δ), RDP and PLD (at
--target_delta); against the server, or for dp_fedavg against whoever sees the average.
VIOLATED: the audit proves more than a claim of this relation allows. "no claim": it
proves more than the number printed, which speaks of another relation. Each row holds
at 95 %; many rows are looked at, and none is corrected for the others.

  python -m experiments.attack --attack=audit --output_dir=runs/audit

No data set is read but for its default settings. Written to --output_dir: config.json,
pieces/ (a finished case each: --resume goes on after the last), results.json,
audit.png.
"""

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
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
from fedsvp_jax.report import figures
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json
from fedsvp_jax.structs import NoiseInfo

from .pieces import kept, refuse_flags

DEFAULTS = {"num_rounds": 4, "delta": 1e-5, "noise_std": 1.0, "batch_size": 10}
ACCOUNTINGS = ("basic", "rdp", "pld")
_SEES_RATIO = ("fedsva", "fedsdp")
_WIDE = 2048  # numbers in an upload whose noise scale is to be read


def define_flags() -> None:
    """What is audited, and how long."""
    flags.DEFINE_list("audit_mechanisms", "all", "Mechanisms; all of them by default.")
    flags.DEFINE_integer(
        "audit_trials", 4000, "Games in each world.", lower_bound=20, upper_bound=10**6
    )
    flags.DEFINE_integer(
        "audit_examples", 100, "|D|, the client's training examples.", lower_bound=1
    )


class Case(NamedTuple):
    """One mechanism, one sensitivity, one pair of worlds."""

    mechanism: str
    sensitivity: str
    relation: str  # the settings' (replace_one, add_remove)
    worlds: str
    claimed: bool = True  # the worlds are neighbours under the claim's relation
    wide: bool = False

    @property
    def name(self) -> str:
        """Names the row and its file."""
        worlds = self.worlds.replace(" ", "_")
        return f"{self.mechanism}-{self.sensitivity}-{worlds}"


def cases_of(mechanism: str, settings: MechanismConfig) -> list[Case]:
    """All cases that the mechanism takes."""
    wanted = [
        Case(mechanism, "paper", "replace_one", "granted"),
        Case(mechanism, "paper", "replace_one", "record"),
        Case(mechanism, "paper", "replace_one", "client", claimed=False),
        Case(mechanism, "weight_clip", "replace_one", "update"),
        Case(mechanism, "update_clip", "replace_one", "update"),
        Case(mechanism, "update_clip", "add_remove", "presence"),
        Case(mechanism, "per_example", "replace_one", "record"),
    ]
    if mechanism == "dp_fedavg":
        wanted = [Case(mechanism, "update_clip", "add_remove", "presence")]
    if mechanism in _SEES_RATIO:
        wanted.append(Case(mechanism, "update_clip", "replace_one", "ratio", wide=True))
    if mechanism == "sensitivity":  # its clip, so what is granted, is no constant
        wanted[0] = Case(
            mechanism, "update_clip", "replace_one", "past norm", wide=True
        )
    return [case for case in wanted if _takes(case, settings)]


def _takes(case: Case, settings: MechanismConfig) -> bool:
    try:
        make_mechanism(case.mechanism, case_settings(case, settings))
    except ValueError:
        return False
    return True


def case_settings(case: Case, settings: MechanismConfig) -> MechanismConfig:
    """The mechanism's settings in a case."""
    printed = case.mechanism in _SEES_RATIO
    return mechanisms.with_analytic_multiplier(
        dataclasses.replace(
            settings,
            sensitivity=case.sensitivity,
            relation=case.relation,
            calibration="classical" if printed else settings.calibration,
        )
    )


class Setting(NamedTuple):
    """What all cases of a command share."""

    mechanism: MechanismConfig
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
    """The client's update in the worlds (in, out)."""
    clip = float(settings.update_clip)
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
    """Round (from 0; the first and the last) -> ε by accounting, the worlds' larger.

    Args:
      infos: (2, T), of the worlds.
      averaged: K; with K > 1 against whoever sees the average.
    """
    rounds = np.shape(infos.noise_std)[1]
    view = "observer" if averaged > 1 else "server"
    ledgers = [Ledger(averaged, proved=mechanism.claim.proved) for _ in range(2)]
    found = {}
    for number in range(rounds):
        for world, ledger in enumerate(ledgers):
            info = jax.tree.map(
                lambda leaf, w=world, t=number: np.repeat(leaf[w, t], averaged), infos
            )
            ledger.record(
                np.arange(averaged),
                round_num=number + 1,
                noise_std=info.noise_std,
                sensitivity=info.sensitivity,
                epsilon=info.epsilon,
                delta=info.delta,
                weights=np.full(averaged, 1 / averaged) if averaged > 1 else None,
            )
        if number not in (0, rounds - 1):
            continue
        row = {
            method: max(
                ledger.epsilon_spent(method, target_delta, view=view)
                for ledger in ledgers
            )
            for method in ACCOUNTINGS
        }
        row["basic_delta"] = max(ledger.delta_spent() for ledger in ledgers)
        found[number] = row
    return found


def audit_case(setting: Setting, case: Case) -> list[dict[str, Any]]:
    """A row after one upload and one after all of them."""
    settings = case_settings(case, setting.mechanism)
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
            dimension=_WIDE if case.wide else 8,
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
            epsilon_bounds.lower_bounds, inside, outside, one_run, seed=setting.seed
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


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """The table for a terminal."""
    head = ("uploads", "claimed", "basic", "rdp", "pld", "audited", "at sum", "verdict")
    lines: list[tuple[str, ...]] = [("mechanism-sensitivity-worlds", *head)]
    lines += [(_name(row), *cells(row)) for row in rows]
    return "\n".join(
        f"{name:<36}" + "".join(f"{text:>10}" for text in rest) for name, *rest in lines
    )


def _name(row: dict[str, Any]) -> str:
    return Case(**{name: row[name] for name in Case._fields}).name


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row's numbers as text: ε by accounting, then the largest audited bounds."""
    return (
        str(row["uploads"]),
        "proved" if row["proved"] else "nominal",
        *(_number(row["claims"][method]) for method in ACCOUNTINGS),
        _number(max(row["audited"].values())),
        _number(max(row["audited_at_basic_delta"].values())),
        row["status"],
    )


def _number(value: float | None) -> str:
    return "inf" if value is None or math.isinf(value) else f"{value:.3g}"


def draw(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Audited against claimed (PLD); what lies above the line is too much."""

    def panel(axes: Any) -> None:
        colors = {"holds": "#0072B2", "no claim": "#E69F00", "VIOLATED": "#D55E00"}
        least = 1e-2
        for status, color in colors.items():
            chosen = [
                row for row in rows if row["status"] == status and row["claims"]["pld"]
            ]
            axes.scatter(
                [row["claims"]["pld"] for row in chosen],
                [max(least, *row["audited"].values()) for row in chosen],
                s=14,
                color=color,
                label=f"{status} ({len(chosen)})",
            )
        ends = [least, 1e3]
        axes.plot(ends, ends, color="#555555", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            figures.plain_ticks(axis)
        axes.set_xlabel("ε claimed (PLD)")
        axes.set_ylabel("ε audited, from below")
        axes.set_title("Audited beside claimed")

    figures.panels(path, [panel])


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Every case of every mechanism."""
    refuse_flags(
        values,
        ("mechanism", "sensitivity", "relation"),
        "audit_mechanisms names the mechanisms, and all their cases are audited",
    )
    refuse_flags(
        values,
        ("contribution_release", "release_epsilon", "clip_weights", "downlink_noise"),
        "the audit plays the mechanisms without it",
    )
    named = list(values.audit_mechanisms)
    if named == ["all"]:
        named = [name for name in mechanisms.mechanism_names() if name != "none"]
    if "none" in named:
        raise ValueError(
            "audit_mechanisms must add noise, got 'none', which claims nothing"
        )
    settings = dataclasses.replace(
        plan.mechanism_settings(config), min_num_examples=values.audit_examples
    )
    cases = []
    for name in named:
        make_mechanism(name, settings)
        cases += cases_of(name, settings)
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
        mechanism=settings,
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
        "audit_mechanisms": named,
        "audit_trials": values.audit_trials,
        "audit_examples": values.audit_examples,
    }
    folder.start(
        dataclasses.asdict(config) | environment() | chosen, resume=values.resume
    )
    rows: list[dict[str, Any]] = []
    for case in tqdm(cases, unit="case", disable=None):
        rows += kept(folder, case.name, partial(audit_case, setting, case))
    write_json(
        folder.path / "results.json",
        {"attack": values.attack, "trials": values.audit_trials, "rows": rows},
    )
    draw(folder.path / "audit.png", rows)
    print(format_table(rows))
    counts = {
        status: sum(row["status"] == status for row in rows)
        for status in ("holds", "no claim", "VIOLATED")
    }
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    print("files:")
    for name in ("config.json", "results.json", "audit.png"):
        print(f"  {folder.path}/{name}")
