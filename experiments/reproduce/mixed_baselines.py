"""Experiment C: are the published gaps an artefact of baselines of two ages?

  python -m experiments.reproduce.mixed_baselines
  python -m experiments.reproduce.mixed_baselines --norun

FedSVA's Table 1 shares baselines with FedSDP's Table I, and FedAvg moved in between.
docs/results/mixed_baselines.md registers the model, its priors and the rule of every
verdict. The first command fits the published cells, keeps the result and writes that
page; with --norun it only writes the page.
"""

import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run.files import write_json

from .. import docs_blocks, provenance
from . import results

FREE = ("time_varying", "reestimation", "dpa", "fedsdp", "fedsva")
NAMES = ("theta", "beta", "tau", "rho", "old", "new", *FREE)  # of the parameters
CHANCE = {"ResNet-18 @ CIFAR-10": 10.0, "CNN @ FEMNIST": 100 / 62}
TABLES = ("fedsdp_table1", "fedsva_table1")
PRINTED = (0.973, 1.033)  # FedSVA's noise ÷ NbAFL's by both formulas, R = 0 and 1
NEAR = 1.5  # a factor beyond which noise differs in earnest
MISFIT = 3.0  # points; a curve further off does not describe the tables
DRAWS = 200_000
ADAPTED = 6  # times
LEAST = 1_000  # effective draws of a fit that is read
_RUNS = 5  # of a published cell

Json = dict[str, Any]


class Cells(NamedTuple):
    """The noised cells of one scenario, one entry each."""

    accuracy: np.ndarray  # %, mean of the last five rounds
    error: np.ndarray  # standard error of that mean over five runs
    doses: np.ndarray  # 0.5/ε
    factor: np.ndarray  # place in FREE of the noise's factor; -1 is NbAFL's, 1
    later: np.ndarray  # bool: of FedSVA's table
    own: np.ndarray  # bool: the row of the paper's own mechanism


class Scenario(NamedTuple):
    """One column of both tables."""

    cells: Cells
    chance: float  # %
    fedavg: tuple[tuple[float, float], tuple[float, float]]  # (mean, error): old, new


def scenario_of(published: Mapping[str, Json], name: str) -> Scenario:
    """The cells of both tables in one scenario."""
    rows, fedavg = [], []
    for table in TABLES:
        for cell in published[table]["cells"]:
            if cell["scenario"] != name:
                continue
            error = cell["last5_std"] / math.sqrt(_RUNS)
            if cell["mechanism"] == "none":
                fedavg.append((cell["last5"], error))
                continue
            own = cell["mechanism"] in ("fedsdp", "fedsva")
            place = (
                -1 if cell["mechanism"] == "nbafl" else FREE.index(cell["mechanism"])
            )
            later = table == TABLES[1]
            rows.append(
                (cell["last5"], error, 0.5 / cell["epsilon"], place, later, own)
            )
    return Scenario(
        Cells(*map(np.array, zip(*rows, strict=True))),
        CHANCE[name],
        (fedavg[0], fedavg[1]),
    )


def predicted(scenario: Scenario, point: Mapping[str, Any], mixed: bool) -> np.ndarray:
    """Accuracy of every cell, %: chance + (B − chance)/(1 + (x/θ)^β).

    x = ρ·f·(0.5/ε) is the cell's noise beside NbAFL's at ε = .5 of the older table: f
    the mechanism's factor, ρ the later table's. B is the FedAvg of the cell's table;
    with `mixed`, the later table's baselines have the older FedAvg. Parameters of shape
    (n, 1) give (n, cells).
    """
    cells = scenario.cells
    one = np.ones_like(point["theta"])
    factors = np.concatenate([*(point[name] for name in FREE), one], axis=-1)
    noise = np.where(cells.later, point["rho"], 1.0) * cells.doses
    noise = noise * factors[..., cells.factor]
    new = cells.later & (cells.own if mixed else True)
    base = np.where(new, point["new"], point["old"])
    share = 1 / (1 + (noise / point["theta"]) ** point["beta"])
    return scenario.chance + (base - scenario.chance) * share


def natural(free: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters by name, (n, 1) each; all but the two FedAvgs are fitted as logs."""
    return {
        name: column if name in ("old", "new") else np.exp(np.clip(column, -30, 30))
        for name, column in zip(NAMES, np.split(free, len(NAMES), axis=-1), strict=True)
    }


def log_posterior(
    scenario: Scenario, mixed: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Logarithm of likelihood times prior, (n, parameters) -> (n,)."""
    from scipy import stats

    prior = {
        "theta": (math.log(5), 1.5),
        "beta": (math.log(2), 0.7),
        "tau": (math.log(1.5), 1.0),
        "rho": (0.0, 0.5),
        "old": scenario.fedavg[0],
        "new": scenario.fedavg[1],
        **dict.fromkeys(FREE, (0.0, 1.0)),
    }
    means, stds = np.array([prior[name] for name in NAMES]).T

    def log_density(free: np.ndarray) -> np.ndarray:
        point = natural(free)
        spread = np.sqrt(scenario.cells.error**2 + point["tau"] ** 2)
        gaps = (scenario.cells.accuracy - predicted(scenario, point, mixed)) / spread
        fit = np.sum(stats.t.logpdf(gaps, df=4) - np.log(spread), axis=-1)
        return fit + np.sum(stats.norm.logpdf(free, means, stds), axis=-1)

    return log_density


class Posterior(NamedTuple):
    """Draws with weights."""

    log_evidence: float
    effective: float  # draws that are worth as much as independent ones
    draws: np.ndarray  # (n, parameters)
    weights: np.ndarray  # (n,), sum 1


def fit(scenario: Scenario, mixed: bool, draws: int = DRAWS) -> Posterior:
    """Importance sampling from normals and a t distribution, fitted to the draws."""
    from scipy import optimize, special, stats
    from sklearn.mixture import GaussianMixture

    target = log_posterior(scenario, mixed)
    middle = [math.log(5), math.log(2), 0, 0]
    fedavg = [mean for mean, _ in scenario.fedavg]
    random = np.random.default_rng(0)
    starts = [
        np.array([*middle, *fedavg, *random.normal(0, 0.5, len(FREE))])
        for _ in range(4)
    ]
    best = min(
        (optimize.minimize(lambda x: -target(x[None])[0], start) for start in starts),
        key=lambda found: found.fun,
    )
    wide = stats.multivariate_t(best.x, best.hess_inv, df=5, allow_singular=True)
    mixture: GaussianMixture | None = None
    for number in (*[draws // 10] * ADAPTED, draws):
        share = 1.0 if mixture is None else 0.2
        drawn = wide.rvs(math.ceil(share * number), random_state=random)
        logs = wide.logpdf(drawn)
        if mixture is not None:
            drawn = np.concatenate([drawn, mixture.sample(number - len(drawn))[0]])
            logs = np.logaddexp(
                math.log(share) + wide.logpdf(drawn),
                math.log(1 - share) + mixture.score_samples(drawn),
            )
        logs = target(drawn) - logs
        evidence = float(special.logsumexp(logs) - math.log(number))
        weights = special.softmax(logs)
        # Cut, or a single draw in a tail would be the next proposal.
        cut = np.minimum(weights, 1 / math.sqrt(number))
        again = random.choice(number, 10_000, p=cut / cut.sum())
        wide = stats.multivariate_t(
            drawn[again].mean(0), np.cov(drawn[again].T) * 1.5, 5, allow_singular=True
        )
        mixture = GaussianMixture(8, reg_covar=1e-6, random_state=0).fit(drawn[again])
    return Posterior(evidence, float(1 / np.sum(weights**2)), drawn, weights)


def interval(posterior: Posterior, name: str, logs: bool = True) -> list[float]:
    """Median and 95 % interval of a parameter."""
    values = posterior.draws[:, NAMES.index(name)]
    order = np.argsort(values)
    heights = np.cumsum(posterior.weights[order])
    found = [values[order][np.searchsorted(heights, q)] for q in (0.5, 0.025, 0.975)]
    return [float(math.exp(x) if logs else x) for x in found]


def verdict(readings: Mapping[str, Json], least: int = LEAST) -> str:
    """What the rules of the registration say of one scenario's two readings."""
    if min(reading["effective_draws"] for reading in readings.values()) < least:
        return f"not read: fewer than {least:,} effective draws"
    if min(reading["tau"][0] for reading in readings.values()) > MISFIT:
        return "void: no curve describes the tables"
    ranges = {name: reading["factor"][1:] for name, reading in readings.items()}

    def explained(low: float, high: float) -> bool:
        wide = low < 1 / NEAR or high > NEAR
        return low <= PRINTED[1] and high >= PRINTED[0] and not wide

    def apart(low: float, high: float) -> bool:
        return high < PRINTED[0] or low > PRINTED[1]

    if all(apart(*one) for one in ranges.values()):
        return "no: the gap stays with either FedAvg"
    if explained(*ranges["mixed"]) and apart(*ranges["own"]):
        return "yes: baselines of two ages explain the gap"
    return "undecided"


def compute(scenario: Scenario, draws: int = DRAWS) -> Json:
    """Both readings of one scenario, the odds between them, and the verdict."""
    found = {"own": fit(scenario, False, draws), "mixed": fit(scenario, True, draws)}
    readings = {
        name: {
            "factor": interval(one, "fedsva"),
            "tau": interval(one, "tau"),
            "log_evidence": one.log_evidence,
            "effective_draws": round(one.effective),
        }
        for name, one in found.items()
    }
    odds = found["mixed"].log_evidence - found["own"].log_evidence
    return {
        "readings": readings,
        "log_bayes_factor_mixed": odds,
        "verdict": verdict(readings, min(LEAST, draws // 200)),
    }


def table(kept: Json) -> str:
    """The fits, a row for each scenario and reading."""
    words = {"own": "each table its own FedAvg", "mixed": "baselines the older FedAvg"}
    return markdown(
        [
            {
                "scenario": name,
                "reading": words[reading],
                "FedSVA's noise ÷ NbAFL's": _shown(one["factor"]),
                "misfit τ, points": _shown(one["tau"]),
                "log evidence": f"{one['log_evidence']:.1f}",
                "effective draws": f"{one['effective_draws']:,}",
                "verdict": result["verdict"],
            }
            for name, result in kept["scenarios"].items()
            for reading, one in result["readings"].items()
        ]
    )


def _shown(values: Sequence[float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*values)


def rewrite(docs: pathlib.Path) -> pathlib.Path:
    """Writes the page's table from the kept result."""
    folder = docs / "results"
    made = docs_blocks.made_from(folder / "mixed_baselines.json", table)
    return docs_blocks.rewrite(folder / "mixed_baselines.md", {"mixed_baselines": made})


def measure(_: Any) -> None:
    """Fits every scenario and keeps the result."""
    folder = docs_blocks.DOCS / "results"
    published = results.published(folder / "reproduction")
    scenarios = {name: compute(scenario_of(published, name)) for name in CHANCE}
    kept = {"scenarios": scenarios, "provenance": provenance.stamp(None, 0)}
    write_json(folder / "mixed_baselines.json", kept)
    print(json.dumps(scenarios, indent=1))


if __name__ == "__main__":
    docs_blocks.run_study(measure, rewrite, __doc__)
