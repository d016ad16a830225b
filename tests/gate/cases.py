"""What the gate looks at: settings of small runs on digits, and how they are run."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from small_runs import digits, share_compiled_rounds, small

from fedsvp_jax import mechanisms, report, run
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import build
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

Changes = dict[str, Any]

# Data, attributes, noise: what a setting of a round can be; names are of the cases.
GAUSSIAN = {"mechanism": "gaussian", "epsilon": 20.0}
STEPS = GAUSSIAN | {"clipping": "per_example"}
POISSON = STEPS | {"relation": "add_remove", "batches": "poisson"}
ASKS = GAUSSIAN | {"clipping": "attribute_records"}
SHARED = {"noise_trust": "secure_aggregation"}
CYCLIC = {"cohorts": "cyclic", "num_clients": 6}
SETTINGS: dict[str, Changes] = {
    **{
        f"mechanism {name}": {"mechanism": name}
        for name in mechanisms.mechanism_names()
    },
    "weight_clip": GAUSSIAN | {"clipping": "weight_clip"},
    "update_clip": GAUSSIAN | {"clipping": "update_clip"},
    "update_clip, a client more": GAUSSIAN
    | {"clipping": "update_clip", "relation": "add_remove"},
    "update_clip, discrete": GAUSSIAN
    | {"clipping": "update_clip", "noise_sampler": "discrete"},
    "update_clip, shared": {"mechanism": "nbafl", "clipping": "update_clip"} | SHARED,
    "discrete, shared": GAUSSIAN
    | {"clipping": "update_clip", "noise_sampler": "discrete"}
    | SHARED,
    "per_example": STEPS,
    "per_example, left out": STEPS | {"relation": "add_remove"},
    "poisson": POISSON,
    "poisson, crops": POISSON | {"augment": True},
    "poisson, one step, shared": POISSON | SHARED | {"local_steps": 1},
    "attribute_records": ASKS,
    "attribute_records, last layer": ASKS
    | {"private_layers": "last", "private_from": 1, "private_margin": 1.0},
    "attribute_records, discrete": ASKS | {"noise_sampler": "discrete"},
    "fedsva, worst case": {"contribution_release": "worst_case"},
    "fedsva, laplace": {
        "clipping": "update_clip",
        "contribution_release": "laplace",
    },
    "fedsdp, randomized response": {
        "mechanism": "fedsdp",
        "clipping": "update_clip",
        "contribution_release": "randomized_response",
    },
    "fedsva, four attributes": {"num_attributes": 4},
    "fedsva, additive": {
        "num_attributes": 4,
        "shapley": "additive",
        "shapley_trainings": 2,
    },
    "fedsva, gp": {
        "num_attributes": 4,
        "shapley": "gp",
        "shapley_trainings": 4,
    },
    "fedsva, loss": {"utility": "loss", "empty_utility": "initial"},
    "adaptive clip": {
        "mechanism": "dp_fedavg",
        "adaptive_clip": True,
        "noise_multiplier": 0.5,
    },
    "bands": {"mechanism": "dp_fedavg", "noise_bands": 2} | CYCLIC,
    "nbafl, downlink": {"mechanism": "nbafl", "downlink_noise": True},
    "cyclic": GAUSSIAN | CYCLIC,
    "at most two uploads": GAUSSIAN | {"max_uploads": 2, "weighting": "uniform"},
    "proximal, momentum": {
        "mechanism": "none",
        "proximal_mu": 0.1,
        "client_momentum": 0.5,
    },
    "server momentum": {
        "mechanism": "none",
        "server_momentum": 0.9,
        "server_learning_rate": 0.5,
    },
    "crops": GAUSSIAN | {"augment": True},
    "bfloat16": {"mechanism": "none", "compute_dtype": "bfloat16"},
    "small_cnn": {"mechanism": "none", "model": "small_cnn"},
    "validation": {"mechanism": "none", "validation_examples": 50},
}
PROGRAMS: dict[str, tuple[list[Changes], Placement]] = {
    **{name: ([changes], Placement()) for name, changes in SETTINGS.items()},
    "two devices": ([{"client_chunk_size": 2}], Placement(num_devices=2)),
    "four devices": ([{"cohort_size": 4}], Placement(num_devices=4)),
    "side by side": ([{"client_chunk_size": 3}], Placement()),
    "three rounds a call": ([{}], Placement(rounds_per_call=3)),
    "two cells": ([{}, {"epsilon": 0.2}], Placement()),
    "two cells side by side": ([{}, {"seed": 1}], Placement(cell_chunk_size=2)),
    "two cells on two devices": ([{}, {"seed": 1}], Placement(sweep_devices=2)),
}


def lowered(name: str) -> str:
    """The text of a case's compiled rounds."""
    cells, placement = PROGRAMS[name]
    program = build([small(**changes) for changes in cells], digits())
    return Trainer(program, placement=placement).lower().as_text()


def _train(folder: pathlib.Path, config: ExperimentConfig, **more: Any) -> None:
    options = run.Options(checkpoint_every=2, **more)
    run.train(config, folder, dataset=digits(), options=options)


def _settings(**changes: Any) -> Callable[[pathlib.Path], None]:
    config = {"num_rounds": 3, **changes}
    return lambda folder: _train(folder, small(**config))


def _sweep(folder: pathlib.Path) -> None:
    plan = run.sweep.SweepPlan(("none", "fedsva"), (0.1, 0.5), (0,))
    run.sweep.sweep(small(num_rounds=2), plan, folder, dataset=digits())


_LEFT_OUT = (  # the same program or rows as another folder's
    *("mechanism none", "fedsva, additive", "fedsva, loss"),
    *("proximal, momentum", "poisson, crops", "bfloat16", "small_cnn", "crops"),
    *("per_example, left out", "weight_clip", "fedsva, worst case"),
)
FOLDERS: dict[str, Callable[[pathlib.Path], None]] = {
    **{
        name: _settings(**changes)
        for name, changes in SETTINGS.items()
        if name not in _LEFT_OUT
    },
    "promise": _settings(
        mechanism="gaussian",
        clipping="update_clip",
        delta=1e-5,
        target_delta=1e-3,
        total_epsilon=0.5,
    ),
    "solved": _settings(
        mechanism="dp_fedavg", total_epsilon=4.0, solve="noise", target_delta=1e-5
    ),
    "filter": _settings(
        mechanism="gaussian",
        clipping="update_clip",
        influence_filter="join",
        contribution_noise=5.0,
        vote_epsilon=0.5,
    ),
    "sweep": _sweep,
}


def finished(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The folder of a case with its page."""
    with pytest.MonkeyPatch.context() as patch:
        share_compiled_rounds(patch)
        FOLDERS[name](folder)
    if name != "sweep":
        report.write_run_report(folder)
    return folder
