"""jax_privacy: the event of an execution plan's configuration.

Source: jax_privacy 2.0, `experimental/execution_plan.py` and `accounting.py`: the noise
on a step's sum is z times the sensitivity under the accountant's relation; every group
of records is drawn from in one step of `num_bands`, by Poisson batches of rate q.
"""

from typing import Any

from fedsvp_jax.check.made import ask, unknown
from fedsvp_jax.check.noise import Noise, Setting, Stated, nothing

_CONFIG = "jax_privacy.experimental.execution_plan.BandMFExecutionPlanConfig"
_RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL")  # both: one gradient of norm C


def live(config: Any) -> list[Noise]:
    """The noise of a whole training as planned, which counts as one upload.

    Args:
      config: a BandMFExecutionPlanConfig, whose plan trains.
    """
    made = ask(config, [_CONFIG])
    lines = list(unknown([made]))
    if not lines:
        relation = config.accountant.neighboring_relation.name
        event = config.plan.dp_event
        if relation not in _RELATIONS or made.values.get("truncated_batch_size"):
            lines.append(f"{relation}, or batches that are cut, is not read")
    if lines:
        text = "the noise of this plan is not understood"
        return [nothing(made.source, text)._replace(not_understood=tuple(lines))]
    step, stated = event.event, None
    z, rate, steps = step.event.noise_multiplier, step.sampling_probability, event.count
    if made.values.get("epsilon") is not None:
        stated = Stated(made.values.get("epsilon"), made.values.get("delta"), "upload")
    return [
        Noise(
            source=made.source,
            text=f"Gaussian noise of multiplier {z:.4g} on {steps} sums of clipped "
            f"gradients that a record may be in, on Poisson batches of rate {rate:.4g}",
            std=z * made.number("l2_clip_norm"),
            multiplier=z,
            unit="record",
            relation="zero_out",
            stated=stated,
            steps=steps,
            rate=rate,
            setting=Setting("noise_multiplier", z, 1.0),
            assumptions=(
                "the loop hands each batch of the plan to its clipped_grad, and this "
                "sum, unchanged, to its noise",
                "nothing else that these records decide leaves",
                "the noise, floating-point numbers, is nobody's guess: no seed is known",
            ),
        )
    ]
