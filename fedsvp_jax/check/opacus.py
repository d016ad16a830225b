"""Opacus: the optimizer that a PrivacyEngine makes.

Source: opacus 1.6, `privacy_engine.py`, `optimizers/optimizer.py` and
`accountants/accountant.py`: noise of std z·C on the sum of a batch's clipped gradients,
over int(n / number of batches); Poisson batches of the sampler's rate, which is
1 / number of batches as made, unless poisson_sampling is false.
"""

import inspect
import math
from typing import Any

from fedsvp_jax.core.files import toml_beside

from .components import Component, ask, unknown
from .noise import Noise, Setting, nothing

_KNOWN = toml_beside(__file__, "engines.toml")["opacus"]
_PLANNED = "planned: a schedule of noise or accumulated batches show in the accountant"


def live(
    optimizer: Any, loader: Any, *, epochs: float = 1, accountant: Any = None
) -> list[Noise]:
    """The noise of a training, planned or done.

    Steps of several noises are counted as if all had the least among them. Batches
    that are accumulated or no Poisson samples are not understood.

    Args:
      optimizer, loader: what `make_private` returned.
      epochs: of a round.
      accountant: `PrivacyEngine.accountant` after the training, whose history counts
        instead: all of it is one upload.
    """
    settings = ask(optimizer, _KNOWN["optimizer"])
    sampler = ask(getattr(loader, "batch_sampler", None), _KNOWN["sampler"])
    if lines := unknown([settings, ask(loader, _KNOWN["loader"]), sampler]):
        return [
            nothing(
                settings.source,
                "no noise is understood: give what Opacus 1.6's make_private returned",
                *lines,
            )
        ]
    epochs = Component("live", {"epochs": epochs}).number("epochs", above=0)
    steps = math.ceil(epochs * len(loader))
    rate = sampler.number("sample_rate", above=0, at_most=1)
    flaws: tuple[str, ...] = (_PLANNED,)
    history = accountant.history if accountant is not None else []
    if history:
        hook = optimizer.step_hook
        captured = inspect.getclosurevars(hook).nonlocals if hook else {}
        on_one_batch = all(math.isclose(q, rate) for _, q, _ in history)
        if not on_one_batch or captured.get("self") is not accountant:
            text = "the accountant's steps are not each on one batch of this loader"
            return [nothing(settings.source, "no noise is understood", text)]
        flaws = ()
        steps = sum(number for *_, number in history)
        z = min(z for z, *_ in history)
        settings = settings._replace(values={**settings.values, "noise_multiplier": z})
    if optimizer.generator and not optimizer.secure_mode:
        flaws += ("the noise is of a generator of one's own: its seed may be known",)
    multiplier = settings.number("noise_multiplier", at_least=0)
    clip = settings.number("max_grad_norm", above=0)
    return [
        Noise(
            source=settings.source,
            text=f"Gaussian noise of std {multiplier * clip:.4g} on the sum of a "
            f"batch's gradients, each clipped to {clip:g}; {steps} steps, on Poisson "
            f"batches of rate {rate:.4g}",
            std=multiplier * clip,
            multiplier=multiplier,
            unit="record",
            relation="zero_out",
            steps=steps,
            rate=rate,
            setting=Setting("noise_multiplier", 1.0),
            assumptions=tuple(_KNOWN["assumptions"]),
            flaws=flaws,
        )
    ]
