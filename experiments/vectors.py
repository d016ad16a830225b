"""Writes the conformance vectors, docs/vectors/*.json: inputs and expected results.

    python -m experiments.vectors

One file per mechanism. A case has settings, one client's update and model, the clipped
update, σ, z, Δ, ε, δ and T of an upload, and the ε after 1, 10 and 100 of them. Where
records' gradients are clipped instead, it has the sum of the file's gradients, each
clipped, over |P| (attribute_records: what is noised and sent) or over B (per_example: a
local step, and the std of its noise). Another implementation agrees if all numbers are
the same to 1e-6 relative.
"""

import json
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.clips import CLIPS
from fedsvp_jax.mechanisms import MechanismConfig, make_mechanism
from fedsvp_jax.mechanisms.noise import clip_by_l2_norm
from fedsvp_jax.run.files import plain

from . import command

_FACTS: dict[str, Any] = {
    "l2_norm_clip": 1.0,
    "num_clients": 10,
    "cohort_size": 5,
    "batch_size": 10,
    "num_rounds": 20,
    "min_num_examples": 80.0,
    "delta": 1e-5,
    "epsilon": 0.5,
    "relation": "replace_one",
}
# What differs from these facts, by sensitivity.
_DIFFERS: dict[str, dict[str, Any]] = {
    "attribute_records": {"private_clip": 0.3, "min_num_examples": 3.0},
    "per_example": {"local_epochs": 2},
}
_UPLOADS = (1, 10, 100)
FOLDER = pathlib.Path("docs/vectors")


def names() -> tuple[str, ...]:
    """The mechanisms that add noise to uploads."""
    return tuple(name for name in mechanisms.mechanism_names() if name != "none")


def cases(name: str) -> list[dict[str, Any]]:
    """The settings of a mechanism's cases."""
    found: list[dict[str, Any]] = []
    # Noise in the steps comes last: the files' order.
    for clip in sorted(CLIPS.values(), key=lambda one: one.in_steps):
        config = _FACTS | {"sensitivity": clip.name} | _DIFFERS.get(clip.name, {})
        try:
            make_mechanism(name, MechanismConfig(**config))
        except ValueError:
            continue  # a sensitivity that it does not take
        ratios = (0.0, 0.35, 1.0) if name in ("fedsva", "fedsdp") else (1.0,)
        # Of the private attribute: as many as the file has gradients.
        records = len(gradients()) if clip.asks else 100
        found += [
            {"settings": config, "num_examples": records, "contribution_ratio": ratio}
            for ratio in ratios
        ]
    return found


def expected(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """What one upload in the third round amounts to."""
    mechanism = make_mechanism(name, MechanismConfig(**case["settings"]))
    settings, ratio = case["settings"], jnp.float32(case["contribution_ratio"])
    received, update = arrays()
    mean = mean_clipped_gradient(settings)
    if mean is not None and settings["sensitivity"] == "attribute_records":
        update = mean
    clipped, _, info = mechanism.update(
        [jnp.asarray(update)],
        mechanism.init(settings["num_clients"]).of(0),
        key=None,
        num_examples=jnp.int32(case["num_examples"]),
        contribution_ratio=ratio,
        round_num=jnp.int32(2),
        params=[jnp.asarray(received)],
    )
    in_steps = mechanism.step_noise_std
    z = float(info.noise_multiplier)
    delta = settings["delta"]
    return dict(
        plain(
            {
                "clipped_update": np.asarray(clipped[0]),
                "mean_clipped_gradient": mean,
                "step_noise_std": in_steps
                and np.float32(in_steps(ratio, round_num=jnp.int32(2))),
                "noise_std": np.float32(info.noise_std),
                "noise_multiplier": np.float32(info.noise_multiplier),
                "sensitivity": np.float32(info.sensitivity),
                "epsilon": np.float32(info.epsilon),
                "delta": np.float32(info.delta),
                "risk_tolerance": np.float32(info.risk_tolerance),
                "epsilon_by_uploads": {
                    str(count): {
                        method: composed_epsilon(method, count / z**2, delta)
                        for method in ("rdp", "gdp")
                    }
                    for count in _UPLOADS
                },
            }
        )
    )


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """The broadcast model and the update, (6,) float32 each."""
    received = np.asarray([0.5, -0.25, 0.125, 1.0, -1.5, 0.0], np.float32)
    update = np.asarray([0.75, 0.5, -0.25, 1.5, 0.125, -1.0], np.float32)
    return received, update


def gradients() -> np.ndarray:
    """(4, 6) float32: gradients of four records, of which three are clipped at 0.3."""
    rows = [
        [0.5, -0.25, 0.0, 0.125, 0.0, 0.25],
        [-1.0, 0.5, 0.75, 0.0, 0.25, 0.0],
        [0.125, 0.0, -0.0625, 0.125, 0.0, 0.0625],
        [2.0, 1.0, -1.5, 0.5, 0.25, -0.125],
    ]
    return np.asarray(rows, np.float32)


def mean_clipped_gradient(settings: dict[str, Any]) -> np.ndarray | None:
    """The clipped gradients' sum over |P| or over B; None where none are clipped."""
    clip, divisor = {
        "attribute_records": (settings.get("private_clip"), len(gradients())),
        "per_example": (settings["l2_norm_clip"], settings["batch_size"]),
    }.get(settings["sensitivity"], (None, None))
    if clip is None:
        return None
    rows = [clip_by_l2_norm([row], clip)[0][0] for row in jnp.asarray(gradients())]
    return np.asarray(sum(rows) / divisor)


def document(name: str) -> dict[str, Any]:
    """The whole file of a mechanism."""
    received, update = arrays()
    return {
        "mechanism": name,
        "round": 3,
        "received": received.tolist(),
        "update": update.tolist(),
        "gradients": gradients().tolist(),
        "cases": [case | {"expected": expected(name, case)} for case in cases(name)],
    }


def main(_: list[str]) -> None:
    """Writes one file per mechanism."""
    for name in names():
        text = json.dumps(document(name), indent=1) + "\n"
        (FOLDER / f"{name}.json").write_text(text)


if __name__ == "__main__":
    command.run(main, __doc__)
