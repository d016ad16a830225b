"""Policies and arrays for tests of a deployed client."""

import dataclasses
import functools
import importlib.util
import pathlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import numpy as np

from fedsvp_jax import federation
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core import prng
from fedsvp_jax.deploy import (
    SECRET,
    Policy,
    Seeded,
    Site,
    Trained,
    answer,
    make_policy,
)
from fedsvp_jax.deploy.answer import charge, finish
from fedsvp_jax.deploy.chain import Entry, read_entries
from fedsvp_jax.deploy.state import ClientState
from fedsvp_jax.federation import federated_data
from fedsvp_jax.mechanisms.discrete_gaussian import wrapped
from fedsvp_jax.mechanisms.grid import residues
from fedsvp_jax.run.trainer import Trainer

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
UPDATE_CLIP = {
    "mechanism": "nbafl",
    "clipping": "update_clip",
    "relation": "add_remove",
    "calibration": "analytic",
    "epsilon": 2.0,
    "delta": 1e-5,
}

SUMS = UPDATE_CLIP | {  # of which only the sum of five has enough noise
    "num_clients": 5,
    "cohort_size": 5,
    "colluders": 2,
    "noise_trust": "secure_aggregation",
    "noise_sampler": "discrete",
}

ROWS = {  # DP-SGD of one step, whose upload is a gradient of clients of up to 40 rows
    "mechanism": "gaussian",
    "clipping": "per_example",
    "relation": "add_remove",
    "batches": "poisson",
    "local_steps": 1,
    "batch_size": 40,
    "l2_norm_clip": 1.0,
    "epsilon": 2.0,
    "delta": 1e-5,
    "noise_sampler": "discrete",
    "noise_bits": 24,
}


@functools.cache
def policy(**changes: Any) -> Policy:
    """Of three clients and five rounds; the same object for the same changes."""
    sizes = {"num_rounds": 5, "num_clients": 3, "num_hbc_clients": 1, "cohort_size": 3}
    named: dict[str, Any] = {"dataset": "digits"} | sizes | changes
    return make_policy(ExperimentConfig(**named), min_num_examples=20)


def model(seed: int = 0, size: float = 0.1) -> list[np.ndarray]:
    """Two arrays of a model, 35 numbers in all."""
    rng = np.random.default_rng(seed)
    shapes = ((4, 8), (3,))
    return [rng.normal(0, size, shape).astype(np.float32) for shape in shapes]


def trained(received: list[np.ndarray], size: float = 0.3) -> list[np.ndarray]:
    """What local training makes of it."""
    moves = model(1, size)
    return [old + move for old, move in zip(received, moves, strict=True)]


def begun(path: pathlib.Path, **changes: Any) -> Site:
    """A site that has not uploaded yet."""
    site = Site(path, policy(**UPDATE_CLIP | changes))
    site.begin(30)
    return site


def entries_of(site: Site) -> list[Entry]:
    """All entries of a site's log, of which every one is verified."""
    entries, problem = read_entries(site.path.read_bytes(), site.path.name)
    assert not problem
    return entries


def sent(
    site: Site,
    round_num: int,
    train: Callable[[], Trained] | None = None,
    received: list[np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The upload of a round."""
    received = model() if received is None else received
    train = train or (lambda: Trained(trained(model())))
    return answer(site, received, train, round_num=round_num)[0]


def privatize(
    received: list[np.ndarray],
    trained: list[np.ndarray],
    state: ClientState,
    *,
    policy: Policy,
    round_num: int,
    contribution: float | None = None,
    randomness: Any = SECRET,
) -> tuple[list[np.ndarray], ClientState, dict[str, Any]]:
    """`charge` and `finish` in one, for a state that no file holds."""
    return finish(
        charge(state, received, policy=policy, round_num=round_num),
        received,
        Trained(trained, contribution),
        policy=policy,
        round_num=round_num,
        randomness=randomness,
    )


def simulated(config: ExperimentConfig) -> list[np.ndarray]:
    """The final model of a simulation, as a client of an engine has its arrays.

    Its noise is drawn as `Seeded` draws it without a digest.
    """
    config = dataclasses.replace(config, paired_noise=True)
    trainer = Trainer(federation.build([config], federated_data.load_data(config)))
    state = trainer.initial_state()
    for index in range(config.num_rounds):
        state, _ = trainer.advance(state, index, 1)
    return [np.asarray(leaf)[0] for leaf in jax.tree.leaves(state.params)]


def simulated_share(
    made: Policy,
    received: list[np.ndarray],
    moved: Sequence[np.ndarray],
    seeded: Seeded,
    *,
    round_num: int = 1,
    num_examples: int = 30,
) -> tuple[list[Any], Any]:
    """What a simulated client adds to a cohort's sum, and its noise's std."""
    upload, _, info = made.clip_and_noise(
        [new - old for new, old in zip(moved, received, strict=True)],
        {},
        key=seeded.key(round_num, prng.Stream.NOISE),
        num_examples=np.int32(num_examples),
        contribution_ratio=np.float32(1),
        round_num=np.int32(round_num - 1),
        params=received,
    )
    return residues(upload, made.mechanism.grid, std=info.noise_std), info.noise_std


def opened(made: Policy, total: Sequence[Any]) -> list[np.ndarray]:
    """A sum of shares as the whole numbers that a server reads."""
    return [wrapped(np.asarray(leaf), made.mechanism.grid.bits) for leaf in total]


def example(file: str) -> ModuleType:
    """A module of the examples, by its path in their folder."""
    spec = importlib.util.spec_from_file_location("example", EXAMPLES / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
