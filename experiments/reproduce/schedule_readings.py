"""The level of Time-Varying DP's and DPA's noise, by two readings of the papers.

Neither paper prints how the schedules are scaled. FedSDP says that NbAFL has the
highest noise, and FedSVA that some baselines spend more ε than it does by basic
composition (its Fig. 2c). Only the second reading, `first_round`, agrees with both.
"""

import dataclasses
import itertools
import math

import numpy as np

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import MechanismConfig
from fedsvp_jax.mechanisms.schedules import DpaSettings, TimeVaryingSettings
from fedsvp_jax.report import labels
from fedsvp_jax.report.text_table import markdown

from . import noise_response, results
from .evidence import SCENARIOS, TO_CONVERGENCE, Evidence, Scenario, mean_accuracy
from .open_question import percent, published_config, response_of

READINGS = {  # values of schedule_level, and what they assume
    "budget": "the T uploads spend what constant noise spends",
    "first_round": "the first round has NbAFL's σ, later ones less",
}


def read_as(config: MechanismConfig, mechanism: str, reading: str) -> MechanismConfig:
    """The settings with a schedule's level read in one of the two ways.

    Args:
      config: of `published_config`.
      mechanism: `time_varying` or `dpa`.
      reading: one of READINGS.
    """
    own = {"time_varying": TimeVaryingSettings, "dpa": DpaSettings}[mechanism]
    return dataclasses.replace(config, settings=own(schedule_level=reading))


def readings_block(evidence: Evidence) -> str:
    """σ per upload of the two schedules, by both readings of their level."""
    rows = []
    for scenario in SCENARIOS[:2]:
        response = response_of(evidence, scenario)
        for mechanism, epsilon in itertools.product(
            ("time_varying", "dpa"), (0.2, 0.5)
        ):
            config = published_config(scenario, epsilon)
            constant = noise_response.formula_std("nbafl", config)
            published = {
                cell["mechanism"]: cell["last5"]
                for cell in evidence.published_cells("fedsva_table1", scenario.name)
                if cell["epsilon"] in (None, epsilon)
            }
            for reading, meaning in READINGS.items():
                stds = noise_response.averaged_stds(
                    mechanism,
                    read_as(config, mechanism, reading),
                    contribution_ratio=1.0,
                )
                mean = float(np.sqrt(np.mean(stds**2)))
                upload = math.sqrt(config.cohort_size)
                rows.append(
                    {
                        "scenario": scenario.name,
                        "mechanism": mechanisms.mechanism_label(mechanism),
                        "ε": labels.significant(epsilon),
                        "reading": meaning,
                        "σ per upload: NbAFL": f"{constant * upload:.3g}",
                        "first round": f"{stds[0] * upload:.3g}",
                        "root mean square": f"{mean * upload:.3g}",
                        "last round": f"{stds[-1] * upload:.3g}",
                        "root mean square ÷ NbAFL's": f"{mean / constant:.2f}",
                        "ε of all rounds ÷ NbAFL's (basic)": (
                            f"{np.mean(constant / stds):.2f}"
                        ),
                        "share of the noise-free accuracy: at that σ": percent(
                            noise_response.share_at(response[1], mean)
                        )
                        if response
                        else "–",
                        "measured": _measured(
                            evidence, scenario, mechanism, epsilon, reading
                        ),
                        "published": percent(published[mechanism] / published["none"]),
                    }
                )
    return markdown(rows)


def _measured(
    evidence: Evidence,
    scenario: Scenario,
    mechanism: str,
    epsilon: float,
    reading: str,
) -> str:
    """The share of the noise-free accuracy in a run with that reading."""
    preset = TO_CONVERGENCE[scenario.response]
    name = preset if reading == "budget" else f"{preset}_{reading}"
    if preset not in evidence.measured or name not in evidence.measured:
        return "–"
    fedavg = mean_accuracy(results.group_of(evidence.measured[preset], "none"))
    run = results.group_of(evidence.measured[name], mechanism, epsilon)
    mean = mean_accuracy(run)
    return percent(mean / fedavg) if fedavg and mean is not None else "–"
