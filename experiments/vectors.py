"""Writes the conformance vectors, docs/vectors/*.json: inputs and expected results.

    python -m experiments.vectors [--vectors_dir=docs/vectors]

One file per mechanism. A case has settings, one client's update and model, the clipped
update, σ, z, Δ, ε, δ and T of an upload, and the ε after 1, 10 and 100 of them. Another
implementation agrees if all numbers are the same to 1e-6 relative.
"""

import json
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.mechanisms import MechanismConfig, make_mechanism
from fedsvp_jax.run.folder import plain

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
}
_SENSITIVITIES = ("paper", "weight_clip", "update_clip")
_UPLOADS = (1, 10, 100)
FLAGS = flags.FLAGS
flags.DEFINE_string("vectors_dir", "docs/vectors", "Folder of the files.")


def names() -> tuple[str, ...]:
    """The mechanisms that add noise to uploads."""
    return tuple(name for name in mechanisms.mechanism_names() if name != "none")


def cases(name: str) -> list[dict[str, Any]]:
    """The settings of a mechanism's cases."""
    found: list[dict[str, Any]] = []
    for sensitivity in _SENSITIVITIES:
        config: dict[str, Any] = _FACTS | {"sensitivity": sensitivity}
        try:
            make_mechanism(name, MechanismConfig(**config))
        except ValueError:
            continue  # a sensitivity that it does not take
        ratios = (0.0, 0.35, 1.0) if name in ("fedsva", "fedsdp") else (1.0,)
        found += [{"settings": config, "contribution_ratio": ratio} for ratio in ratios]
    return found


def expected(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """What one upload in the third round amounts to."""
    mechanism = make_mechanism(name, MechanismConfig(**case["settings"]))
    received, update = arrays()
    clipped, _, info = mechanism.update(
        [jnp.asarray(update)],
        mechanism.init(case["settings"]["num_clients"]).of(0),
        key=None,
        num_examples=jnp.int32(100),
        contribution_ratio=jnp.float32(case["contribution_ratio"]),
        round_num=jnp.int32(2),
        params=[jnp.asarray(received)],
    )
    z = float(info.noise_multiplier)
    delta = case["settings"]["delta"]
    return dict(
        plain(
            {
                "clipped_update": np.asarray(clipped[0]),
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


def document(name: str) -> dict[str, Any]:
    """The whole file of a mechanism."""
    received, update = arrays()
    return {
        "mechanism": name,
        "round": 3,
        "num_examples": 100,
        "received": received.tolist(),
        "update": update.tolist(),
        "cases": [case | {"expected": expected(name, case)} for case in cases(name)],
    }


def main(argv: list[str]) -> None:
    """Writes one file per mechanism."""
    del argv
    folder = pathlib.Path(FLAGS.vectors_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        text = json.dumps(document(name), indent=1) + "\n"
        (folder / f"{name}.json").write_text(text)


if __name__ == "__main__":
    command.run(main, __doc__)
