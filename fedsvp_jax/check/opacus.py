"""Opacus: `make_private` and `make_private_with_epsilon` of a PrivacyEngine.

Source: opacus 1.6, `privacy_engine.py`: noise of std z·C on the sum of a batch's
clipped gradients; Poisson batches of q = 1 / len(data_loader) unless poisson_sampling
is false, where drop_last makes the loader one batch shorter.
"""

import math
import pathlib

from fedsvp_jax.check.noise import Facts, Noise, Setting, Stated, sampled_multiplier
from fedsvp_jax.check.python_calls import Call, calls, finite, whole

_FUNCTIONS = {
    "make_private": "",
    "make_private_with_epsilon": "",
    "DataLoader": "dataset batch_size",
    "PrivacyEngine": "",
}


def read(path: pathlib.Path, facts: Facts) -> list[Noise]:
    """The noise of every call that makes a training private.

    Raises:
      ValueError: the file is unreadable, or a value that decides the noise is.
    """
    found = calls(path, _FUNCTIONS, config={}, overrides=facts.overrides)
    loaders = [call for call in found if call.name == "DataLoader"]
    secure = any(
        call.name == "PrivacyEngine" and call.get("secure_mode", False)
        for call in found
    )
    return [
        _training(call, loaders, secure, facts)
        for call in found
        if call.name.startswith("make_private")
    ]


def _training(call: Call, loaders: list[Call], secure: bool, facts: Facts) -> Noise:
    stated, epochs = None, facts.epochs
    if call.name == "make_private_with_epsilon":
        epsilon, delta = call.number("target_epsilon"), call.number("target_delta")
        stated = Stated(epsilon, delta, "run")
        epochs = call.number("epochs") if epochs is None else epochs
    if epochs is None:
        raise ValueError(f"{call.source}: give the epochs of a round by --epochs")
    epochs = finite(call.source, "epochs", epochs, above=0)
    clipping = call.get("clipping", "flat")
    if clipping != "flat":
        raise ValueError(
            f"{call.source}: clipping = {clipping} is not read, flat alone is"
        )
    clip = call.number("max_grad_norm", above=0)
    sampled = call.get("poisson_sampling", True)
    batches = 1
    if sampled or stated:
        size = _batch_size(call, loaders, facts)
        dropped = any(one.get("drop_last", False) for one in loaders)
        in_batches = _examples(call, facts) / size
        batches = max(1, int(in_batches) if dropped else math.ceil(in_batches))
    if stated is None:
        multiplier = call.number("noise_multiplier", at_least=0)
    else:
        solved = max(1, int(call.number("epochs", above=0) * batches))
        multiplier = sampled_multiplier(stated, 1 / batches, solved)
    steps = math.ceil(epochs * batches) if sampled else math.ceil(epochs)
    how = (
        f"{steps} steps a round, on Poisson batches of rate {1 / batches:.4g}"
        if sampled
        else f"{steps} epochs a round of shuffled batches, in one of which a record "
        "is; an accountant that counts sampling does not hold for them"
    )
    return Noise(
        source=call.source,
        text=f"Gaussian noise of std {multiplier * clip:.4g} on the sum of a batch's "
        f"gradients, each clipped to {clip:g}; {how}",
        std=multiplier * clip,
        multiplier=multiplier,
        unit="record",
        relation="add_remove" if sampled else "replace_one",
        stated=stated,
        steps=steps,
        rate=1 / batches if sampled else 1.0,
        setting=Setting("noise_multiplier", multiplier, 1.0),
        assumptions=(
            "nothing but what these steps trained leaves (no metric, no BatchNorm "
            "statistics)",
            "a client takes part in every round",
            *(() if secure else ("nobody knows torch's seed: secure_mode is off",)),
        ),
    )


def _examples(call: Call, facts: Facts) -> int:
    if facts.examples is None:
        raise ValueError(f"{call.source}: give a client's records by --examples")
    return facts.examples


def _batch_size(call: Call, loaders: list[Call], facts: Facts) -> int:
    """Of the flag, else of the file's one DataLoader that says it."""
    if facts.batch_size is not None:
        return facts.batch_size
    sizes = {one.get("batch_size") for one in loaders if "batch_size" in one.arguments}
    if len(sizes) != 1:
        raise ValueError(f"{call.source}: give the size of a batch by --batch_size")
    return whole(call.source, "batch_size", sizes.pop())
