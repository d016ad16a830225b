"""The level of Time-Varying DP's and DPA's noise, by two readings of the papers.

Neither paper prints how the schedules are scaled. FedSDP says that NbAFL has the
highest noise, and FedSVA that some baselines spend more ε than it does by basic
composition (its Fig. 2c). Only the second reading, `first_round`, agrees with both.
"""

import itertools
import math

import numpy as np

from fedsvp_jax import mechanisms
from fedsvp_jax.report import labels
from fedsvp_jax.report.text_table import markdown

from . import estimates, noise_response, results
from .evidence import FEDAVG, SCENARIOS, TO_CONVERGENCE, Evidence, Scenario
from .open_question import percent
from .published_noise import (
    SCHEDULES,
    Measured,
    cells,
    published_config,
    read_as,
    response_of,
)

READINGS = {  # values of schedule_level, and what they assume
    "budget": "the T uploads spend what constant noise spends",
    "first_round": "the first round has NbAFL's σ, later ones less",
}


def consistent(
    evidence: Evidence, scenario: Scenario, measured: Measured, reading: str
) -> tuple[int, int]:
    """How many of the schedules' published cells one reading explains, and how many
    there are."""
    scheduled = [
        cell
        for cell in cells(evidence, scenario, measured, reading=reading)
        if cell.mechanism in SCHEDULES
    ]
    return sum(cell.consistent for cell in scheduled), len(scheduled)


def measured_share(
    evidence: Evidence,
    scenario: Scenario,
    mechanism: str,
    epsilon: float,
    reading: str,
) -> float | None:
    """The share of the noise-free accuracy that runs with that reading reach."""
    preset = TO_CONVERGENCE[scenario.response]
    name = preset if reading == "budget" else f"{preset}_{reading}"
    if preset not in evidence.measured or name not in evidence.measured:
        return None
    return estimates.share(
        results.group_of(evidence.measured[name], mechanism, epsilon),
        results.group_of(evidence.measured[preset], "none"),
    )


def readings_block(evidence: Evidence) -> str:
    """σ per upload of the two schedules, by both readings of their level."""
    rows, lines = [], []
    for scenario in SCENARIOS[:2]:
        response = response_of(evidence, scenario)
        if response:
            lines += [
                f"- {scenario.name}, reading `{reading}`: the noise explains "
                "{} of {} published accuracies of the two schedules.\n".format(
                    *consistent(evidence, scenario, response, reading)
                )
                for reading in READINGS
            ]
        for mechanism, epsilon in itertools.product(SCHEDULES, (0.2, 0.5)):
            config = published_config(scenario, epsilon)
            constant = noise_response.formula_std("nbafl", config)
            published = evidence.published_last5("fedsva_table1", scenario.name)
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
                            noise_response.share_at(response.curve, mean)
                        )
                        if response
                        else "–",
                        "measured": percent(
                            measured_share(
                                evidence, scenario, mechanism, epsilon, reading
                            )
                        ),
                        "published": percent(
                            published[mechanism, epsilon] / published[FEDAVG]
                        ),
                    }
                )
    return markdown(rows) + "\n" + "".join(lines)
