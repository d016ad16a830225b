"""jax_privacy: the event of an execution plan's configuration.

Source: jax_privacy 2.0, `experimental/execution_plan.py` and `accounting.py`: the noise
on a step's sum is z times the sensitivity under the accountant's relation; every group
of records is drawn from in one step of `num_bands`, by Poisson batches of rate q. The
noise's key is `noise_seed`, or one of 2^31 that `noise_addition.py` draws.
"""

import dataclasses
from typing import Any

from .components import ask, unknown
from .noise import Noise, Setting, Stated, nothing

_CONFIG = "jax_privacy.experimental.execution_plan.BandMFExecutionPlanConfig"
_RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL")  # both: one gradient of norm C


def live(config: Any) -> list[Noise]:
    """The noise of a whole training as planned, which counts as one upload.

    Args:
      config: a BandMFExecutionPlanConfig, whose plan trains.
    """
    settings = ask(config, [_CONFIG])
    if lines := unknown([settings]):
        return [
            nothing(
                settings.source,
                "no noise is understood: give a BandMFExecutionPlanConfig",
                *lines,
            )
        ]
    relation = config.accountant.neighboring_relation.name
    cut = settings.values["truncated_batch_size"] is not None
    if cut or settings.values["column_normalize"] or relation not in _RELATIONS:
        text = f"for {relation}, with column_normalize, or of batches that are cut"
        return [nothing(settings.source, f"no noise is understood {text}")]
    event = dataclasses.replace(config).plan.dp_event
    if config.plan.dp_event != event:  # it is kept, and may have been replaced
        return [nothing(settings.source, "another plan than its settings make")]
    step, stated = event.event, None
    z, rate, steps = step.event.noise_multiplier, step.sampling_probability, event.count
    if config.epsilon is not None:
        stated = Stated(config.epsilon, config.delta, "upload")
    return [
        Noise(
            source=settings.source,
            text=f"Gaussian noise of multiplier {z:.4g} on {steps} sums of clipped "
            f"gradients that a record may be in, on Poisson batches of rate {rate:.4g}",
            std=z * settings.number("l2_clip_norm"),
            multiplier=z,
            unit="record",
            relation="zero_out",
            stated=stated,
            steps=steps,
            rate=rate,
            setting=Setting("noise_multiplier", 1.0),
            assumptions=(
                "the loop hands each batch of the plan to its clipped_grad, and this "
                "sum, unchanged, to its noise",
                "nothing else that these records decide leaves",
                "nobody tries the 2^31 seeds, from one of which all noise follows",
                "the noise, floating-point numbers, is as good as real",
            ),
            flaws=()
            if config.noise_seed is None
            else ("noise_seed is set: whoever knows it can subtract the noise",),
        )
    ]
