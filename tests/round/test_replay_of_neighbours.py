"""Replay of neighbours: what is claimed equal is equal to the bit, the rest is bounded.

As Re:cord-play does (arXiv 2602.17454): every key is fixed, and two worlds differ in
one record. The model is a probe: its loss is linear, and a record of label l pulls at
row l of the weights alone. Every record has a label of its own, so row l of an upload
tells, to the bit, in which batches record l was, which crop it got, and by what its
gradient was scaled and divided. Both worlds run the compiled round that every run takes
(`Trainer.advance`), from the same state.
"""

import dataclasses
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from planted_bugs import BUGS
from worlds import make_world, rates

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.structs import Array, Examples, Model, Params, Rows
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.federation import build
from fedsvp_jax.influence import lazy
from fedsvp_jax.mechanisms import base, dp_fedavg, noise
from fedsvp_jax.models import aggregation
from fedsvp_jax.round import local_training
from fedsvp_jax.round.state import RoundMetrics, ServerState
from fedsvp_jax.run import trainer

SIDE = 4  # of the images
SIZES = (14, 9, 8, 8)  # of the clients: unequal, so the weights are too
RECORDS = sum(SIZES)
PUBLIC, PRIVATE = 0, 1
SCALE, OVERFLOWS = 1e4, 1e38
TOLERANCE = 2e-5  # relative, of float32 sums under the noise
SAID = (  # what an upload says of its noise, and what the account reads
    *("noise_multiplier", "noise_std", "step_noise_std", "noise_l2"),
    *("sensitivity", "epsilon", "delta", "risk_tolerance"),
)


def dataset(*, flat: bool = False, rows_per_person: int | None = None) -> Dataset:
    """Images, or features, with a label each; every third record is private.

    Of each client as many records as there may be are one person's, from the first on.
    """
    rng = np.random.default_rng(0)
    labels = np.arange(RECORDS, dtype=np.int32)
    codes = np.where(labels % 3 == 0, PRIVATE, PUBLIC).astype(np.int32)
    shape = (SIDE * SIDE,) if flat else (SIDE, SIDE, 1)
    images = rng.uniform(0.5, 1.5, (RECORDS, *shape)).astype(np.float32)
    return Dataset(
        *("probe", images, labels, images[:8], labels[:8]),
        num_classes=RECORDS,
        train_writers=np.repeat(np.arange(len(SIZES)), SIZES).astype(np.int32),
        columns={"group": Column(codes, ("public", "private"))},
        train_persons=None
        if rows_per_person is None
        else np.concatenate(
            [
                RECORDS * writer + np.arange(size) // rows_per_person
                for writer, size in enumerate(SIZES)
            ]
        ),
        rows_per_person=rows_per_person,
    )


def pull(outputs: Array, label: Array) -> Array:
    """A record's loss, linear in the weights: its gradient is -x in its label's row."""
    return -outputs[label]


def probe() -> Model:
    """Logits W x of a flattened image; W starts at small numbers."""

    def init(key: Array, example: Array) -> tuple[Params, Params]:
        size = int(np.prod(example.shape[1:]))
        return {"w": 0.01 * jax.random.normal(key, (RECORDS, size))}, {}

    def apply(params: Params, stats: Params, x: Array, **_: Any) -> tuple[Array, Any]:
        return x.reshape(x.shape[0], -1) @ params["w"].T, stats

    return Model(init, apply)


def settings(**changes: Any) -> ExperimentConfig:
    """Resolved settings of a small federation of the probe."""
    chosen = {
        "dataset": "npz",
        "partition": "by_writer",
        "num_clients": len(SIZES),
        "num_hbc_clients": 0,
        "cohort_size": 3,
        "num_rounds": 4,
        "local_epochs": 2,
        "batch_size": 3,
        "learning_rate": 5.0,
        "l2_norm_clip": 0.75,
        "private_clip": 0.75,
        "delta": 1e-3,
        "attributes": "column:group",
        "private_attribute": PRIVATE,
        "split": "by_position",
        "client_chunk_size": 1,
        "eval_every": 4,
    } | changes
    return resolve(ExperimentConfig(**chosen), dataset())


class Side(NamedTuple):
    """What one world's round left behind: host arrays of one cell."""

    state: ServerState
    metrics: RoundMetrics


class Replay:
    """Rounds of both worlds, with a linear layer and cross-entropy or with the probe.

    Attributes:
      record: its row; a private one where the query is about these.
      changed: the rows that differ, the record's; or all of a person who has most.
      owner: the client that holds it, the largest one.
    """

    def __init__(
        self, linear: bool = False, rows_per_person: int | None = None, **changes: Any
    ) -> None:
        own = {} if linear else {"model": probe(), "loss": pull}
        how = {"model": "logistic"} if linear else {"secret_noise": True}
        self.config = settings(**changes, **how)
        data = dataset(flat=linear, rows_per_person=rows_per_person)
        secret = None if linear else bytes(8)  # of a seed nothing is proved of a probe
        self.program = build([self.config], data, noise_key=secret, **own)
        self.trainer = trainer.Trainer(self.program)
        self.examples = self.program.data.examples
        split = self.program.data.split
        self.owner = int(np.argmax(split.num_train[0]))
        count = int(split.num_train[0, self.owner])
        self.rows_of_owner = np.asarray(split.train[0, self.owner, :count])
        asks = self.config.clipping == "attribute_records"
        private = np.asarray(self.examples.attributes) == PRIVATE
        self.record = int(next(r for r in self.rows_of_owner if not asks or private[r]))
        self.changed = np.array([self.record])
        if rows_per_person is not None:
            assert data.train_persons is not None
            whose = data.train_persons[self.rows_of_owner]
            persons, counts = np.unique(whose, return_counts=True)
            assert counts.max() == rows_per_person
            self.changed = self.rows_of_owner[whose == persons[counts.argmax()]]

    def worlds(self, scale: float) -> list[Examples]:
        """In the first the record is `scale` times as long as it was.

        In the other it is the opposite, or, where the relation leaves something out,
        has no gradient; of a whole client that is added or removed no record has one.
        """
        config, inputs = self.config, self.examples.inputs
        one = inputs.at[self.changed].multiply(scale)
        clipped = config.clipping in ("per_example", "attribute_records")
        if config.mechanism == "dp_fedavg" or (
            config.relation == "add_remove" and not clipped
        ):
            other = one.at[self.rows_of_owner].set(0.0)
        else:
            left_out = config.relation == "add_remove"
            other = one.at[self.changed].multiply(0.0 if left_out else -1.0)
        return [dataclasses.replace(self.examples, inputs=x) for x in (one, other)]

    def rounds(self, scale: float = SCALE) -> Iterator[tuple[ServerState, Side, Side]]:
        """Every round: the state that the first world has reached, and what is left."""
        state = self.trainer.initial_state()
        for number in range(self.config.num_rounds):
            sides, reached = [], []
            for examples in self.worlds(scale):
                copy = jax.tree.map(jnp.copy, state)  # a round consumes its state
                trainer = self.trainer
                trainer._data = trainer._data._replace(examples=examples)
                after, metrics = trainer.advance(trainer.place(copy), number, 1)
                reached.append(after)
                host = cell_of(jax.device_get(after), 0)
                sides.append(Side(host, cell_of(metrics, (0, 0))))
            before, state = state, reached[0]
            yield cell_of(jax.device_get(before), 0), *sides


def same(one: Any, other: Any) -> bool:
    """Whether two trees have the same bits, NaN included."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(_bytes(a) == _bytes(b) for a, b in leaves)


def _bytes(leaf: Any) -> bytes:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).tobytes()


def violations(replay: Replay, before: ServerState, one: Side, other: Side) -> set[str]:
    """Which claims a round breaks; the empty set where it keeps them all."""
    config, mechanism, owner = replay.config, replay.program.mechanism, replay.owner
    here, there = one.metrics.clients, other.metrics.clients
    broken = set()

    def check(kind: str, holds: bool) -> None:
        if not holds:
            broken.add(kind)

    check("cohort", same(here.client_id, there.client_id))
    check("counts", same(here.num_examples, there.num_examples))
    check("weights", same(here.weight, there.weight))
    check("spent", same(one.state.spent, other.state.spent))
    others = here.client_id != owner
    check("others", same(cell_of(here, others), cell_of(there, others)))
    if owner not in here.client_id:
        check("absent", same(one.state, other.state))
        return broken
    place = int(np.flatnonzero(here.client_id == owner)[0])
    follows = float(here.released_ratio[place]) != float(there.released_ratio[place])
    if follows:  # the noise may follow what was released, and nothing else
        check("released", config.contribution_release != "worst_case")
        return broken
    said = ([getattr(side.noise, name) for name in SAID] for side in (here, there))
    check("noise", same(*said))
    if not mechanism.basis.proved:
        return broken
    check("finite", same(here.finite, there.finite))
    moved = _moved(one.state.params, other.state.params)
    weight = float(here.weight[place])
    asks = config.clipping == "attribute_records"
    if asks:
        check("public", not np.any(moved))
        moved = _moved(one.state.answer, other.state.answer)
    if asks or config.clipping == "per_example":
        rest = ~np.isin(np.arange(len(moved)), replay.changed)
        check("records", not np.any(moved[rest]))
    most = weight * _most_moved(replay, here.noise.sensitivity[place])
    size = max(
        *(np.abs(leaf).max() for leaf in jax.tree.leaves(before.params)),
        float(here.noise.noise_std[place]),
    )
    slack = 1e-6 * weight * size * np.sqrt(moved.size)  # of the sum that cancels
    check("moved", np.linalg.norm(moved) <= most * (1 + TOLERANCE) + slack)
    if config.adaptive_clip:
        clips = [np.log(side.state.mechanism.shared["clip"]) for side in (one, other)]
        step = config.clip_learning_rate / len(here.client_id)
        check("clip", abs(clips[0] - clips[1]) <= step * (1 + 1e-5) + 1e-6)
    return broken


def _moved(one: Any, other: Any) -> np.ndarray:
    """(records, d): the difference of two trees, whose leaves have a row a label."""
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return np.concatenate([(a - b).reshape(len(a), -1) for a, b in leaves], axis=1)


def _most_moved(replay: Replay, sensitivity: np.ndarray) -> float:
    """How far an upload may move: Δ, or the steps that a record is in by 2C/B.

    Of a person the records together, which may all be in the same steps.
    """
    config = replay.config
    if config.clipping != "per_example":
        return float(sensitivity)
    left_out = config.relation == "add_remove"
    steps = config.local_epochs
    if config.batches == "poisson":
        mine = len(replay.rows_of_owner)
        steps = config.local_steps or steps * max(mine // config.batch_size, 1)
    one = (1 if left_out else 2) * config.l2_norm_clip / config.batch_size
    one *= len(replay.changed)
    return config.learning_rate * steps * one / (1 - config.client_momentum)


def broken(replay: Replay, scale: float = SCALE) -> set[str]:
    """The claims that some round of a replay breaks."""
    return set().union(*(violations(replay, *of) for of in replay.rounds(scale)))


POISSON = {"clipping": "per_example", "relation": "add_remove", "batches": "poisson"}
RECORDS_OF = {"mechanism": "gaussian", "clipping": "per_example"}
SHARED = {"noise_trust": "secure_aggregation"}
GRADIENTS = {  # of all rows that a client trains on; the largest has so many
    **POISSON,
    "dataset": "csv",  # whose clients need not fill a batch
    "local_steps": 1,
    "batch_size": max(SIZES) * 4 // 5,
    "noise_sampler": "discrete",
    "noise_bits": 22,
}
QUICK: list[dict[str, Any]] = [
    {"mechanism": "gaussian", "clipping": "update_clip", "weighting": "uniform"},
    {"mechanism": "gaussian", "clipping": "per_example", "augment": True},
    {"mechanism": "gaussian", **POISSON, "augment": True},
    {"mechanism": "nbafl", "clipping": "attribute_records"},
    {"mechanism": "nbafl", "clipping": "weight_clip", **SHARED},
    {
        "mechanism": "fedsva",
        "clipping": "update_clip",
        "contribution_release": "worst_case",
    },
    {"mechanism": "dp_fedavg", "adaptive_clip": True, "count_noise_std": 2.0},
    {"mechanism": "gaussian", **POISSON, "rows_per_person": 3},
    {"mechanism": "gaussian", **GRADIENTS, "relation": "replace_one"},
    {"mechanism": "gaussian", **GRADIENTS, "rows_per_person": 3},
    {"mechanism": "nbafl", **GRADIENTS, **SHARED},
]
PERSONS: list[dict[str, Any]] = [
    {**RECORDS_OF, "rows_per_person": 3},
    {**RECORDS_OF, "rows_per_person": 2, "relation": "add_remove", "local_epochs": 1},
    {**POISSON, "mechanism": "nbafl", "rows_per_person": 3, "local_steps": 1, **SHARED},
    {"mechanism": "gaussian", "clipping": "update_clip", "rows_per_person": 4},
]


def supported() -> Iterator[dict[str, Any]]:
    """Every mechanism × clipping × relation, with the rest drawn by turns."""
    turns = itertools.cycle(
        [
            {},
            {"cohorts": "cyclic", "cohort_size": 2},
            {"noise_sampler": "discrete"},
            {**SHARED, "colluders": 1},
            {"max_uploads": 2, "weighting": "uniform"},
            {"client_momentum": 0.5},
            {"server_momentum": 0.5, "server_learning_rate": 0.5},
        ]
    )
    for name, how, relation in itertools.product(
        mechanisms.mechanism_names(),
        ("paper", "weight_clip", "update_clip", "per_example", "attribute_records"),
        ("replace_one", "add_remove"),
    ):
        yield {"mechanism": name, "clipping": how, "relation": relation} | next(turns)
        if how == "per_example" and relation == "add_remove":
            yield {"mechanism": name, **POISSON, "local_steps": 1, **SHARED}
            yield {"mechanism": name, **POISSON, "local_steps": 3}
    for release in ("laplace", "randomized_response", "raw"):
        for name in ("fedsva", "fedsdp"):
            yield {
                "mechanism": name,
                "clipping": "update_clip",
                "contribution_release": release,
                "release_epsilon": 0.1,
            }
    bands = {"noise_bands": 2, "cohorts": "cyclic", "cohort_size": 2}
    yield {"mechanism": "dp_fedavg", **bands}
    yield {"mechanism": "gaussian", "clipping": "attribute_records"} | {
        "private_from": 2
    }


@pytest.mark.parametrize(
    "changes",
    [  # the slow ones are planted violations' settings
        pytest.param(
            changes, marks=() if number in (2, 3, 5, 6, 7, 8, 9) else pytest.mark.slow
        )
        for number, changes in enumerate(QUICK)
    ],
    ids=str,
)
def test_neighbours_differ_by_no_more_than_is_claimed(changes: dict[str, Any]) -> None:
    assert broken(Replay(**changes)) == set()


@pytest.mark.slow
def test_neighbours_of_every_supported_setting() -> None:
    accepted = 0
    for changes in supported():
        try:
            replay = Replay(**changes)
        except ValueError:
            continue
        accepted += 1
        for scale in (1e4, 1.0, 1e30):
            assert broken(replay, scale) == set(), (changes, scale)
    assert accepted > 40


@pytest.mark.hole
def test_a_record_absent_from_secret_batches_changes_no_other_record() -> None:
    """The others keep their batches, divisors and crops when one is not there."""
    replay = Replay(mechanism="gaussian", **POISSON, augment=True)
    rows = replay.rows_of_owner
    canary = int(np.flatnonzero(rows == replay.record)[0])
    right = local_training.poisson_batch

    def without(key: Any, member: Any, **sizes: int) -> tuple[Any, Any]:
        position, taken = right(key, member, **sizes)
        gone = (position == canary) & (jnp.sum(member.astype(jnp.int32)) == len(rows))
        kept = jnp.argsort(gone | (taken == 0), stable=True)  # the rest moves up
        return position[kept], jnp.where(gone, 0, taken)[kept]

    present = [one.state.params["w"] for _, one, _ in replay.rounds()]
    with mock.patch.object(local_training, "poisson_batch", without):
        again = Replay(mechanism="gaussian", **POISSON, augment=True)
        absent = [one.state.params["w"] for _, one, _ in again.rounds()]
    rest = np.arange(len(present[-1])) != replay.record
    assert np.any(present[-1][~rest] != absent[-1][~rest])
    np.testing.assert_array_equal(present[-1][rest], absent[-1][rest])


def test_a_run_draws_all_rows_of_a_person_or_none() -> None:
    """The rounds that are compiled, not the function alone that draws a batch."""
    once = {"local_steps": 1, "batch_size": 6, "num_rounds": 10, "rows_per_person": 3}
    replay = Replay(mechanism="gaussian", **POISSON, **once)
    drawn = []
    for _, one, other in replay.rounds():
        moved = _moved(one.state.params, other.state.params)[replay.changed]
        rows = np.any(moved != 0, axis=1)
        assert rows.all() or not rows.any()
        drawn.append(rows.any())
    assert 1 < sum(drawn) < 10


@pytest.mark.slow
@pytest.mark.parametrize("changes", PERSONS, ids=str)
def test_all_rows_of_a_person_move_no_more_than_is_claimed(
    changes: dict[str, Any],
) -> None:
    for scale in (1e4, 1.0, 1e30):
        assert broken(Replay(**changes), scale) == set()


def test_an_overflow_in_training_does_not_tell() -> None:
    clipped = {"mechanism": "gaussian", "clipping": "update_clip"}
    assert broken(Replay(linear=True, **clipped), OVERFLOWS) == set()


@pytest.mark.bits
@pytest.mark.hole
def test_other_records_are_rounded_alike_beside_an_overflow() -> None:
    """The users' compiler fused other products where a record was not finite."""
    left_out = RECORDS_OF | {"relation": "add_remove", "epsilon": 0.6}
    assert broken(Replay(**left_out), 1e30) == set()


@pytest.mark.parametrize("separate", [False, True])
def test_one_step_of_a_linear_layer_moves_by_no_more_than_a_record_may(
    separate: bool,
) -> None:
    """Its clipped gradients are not computed one by one (`gradient_scale`)."""
    one_step = {"partition": "iid", "batch_size": 8, "local_epochs": 1}
    one_step["separate_clips"] = separate
    replay = Replay(linear=True, **RECORDS_OF, **one_step, epsilon=5.0)
    assert broken(replay) <= {"records"}  # a softmax couples the rows


@pytest.mark.parametrize("how", ["by_writer", "iid", "paper"])
def test_dealing_ignores_what_a_record_holds(how: str) -> None:
    """Labels too, where nothing that is stratified or dealt by class reads them."""
    given = dataset()
    blind = how in ("by_writer", "iid")
    config = settings(
        mechanism="gaussian",
        partition=how,
        class_share=1.0,
        split="by_position" if blind else "stratified",
        batch_size=1,
    )
    inputs, labels = given.train_inputs.copy(), given.train_labels.copy()
    inputs[5] *= -1e6
    if blind:
        labels[5] = 0
    other = dataclasses.replace(given, train_inputs=inputs, train_labels=labels)
    one, other = (build([config], d, model=probe(), loss=pull) for d in (given, other))
    assert one.plan == other.plan
    dealt = [  # all but the secret root, into which a digest of the data goes
        (
            dataclasses.replace(made.cells, root=made.cells.root.shared),
            made.data.test,
        )
        for made in (one, other)
    ]
    assert same(*dealt)


# What stands in the place of a function, and which claim then breaks.
def _sorted(right: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Batches in the order of what the records hold."""
    *before, (examples, indices, member), draws = given
    sums = jnp.sum(examples.inputs[indices], axis=(1, 2, 3))
    order = jnp.argsort(jnp.where(member, sums, jnp.inf))
    rows = Rows(examples, indices[order], member[order])
    return right(*before, rows, draws, **named)


def _told(change: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    """A round whose cell and state follow who holds a record of the wrong sign."""

    def faulty(right: Any, model: Any, plan: Any, *given: Any, **named: Any) -> Any:
        cell, state, data = given
        told = change(cell, state, _holders(cell, data))
        return right(model, plan, *told, data, **named)

    return faulty


def _holders(cell: Any, data: Any) -> Any:
    """(M,) bool."""
    sums = jnp.sum(data.examples.inputs, axis=(1, 2, 3))
    return jnp.any(sums[cell.split.train] < 0, axis=1)


@_told
def _fewer(cell: Any, state: Any, holders: Any) -> Any:
    """A client counts its records by what they hold."""
    fewer = cell.split.num_train - 6 * holders.astype(jnp.int32)
    return cell.replace(split=cell.split.replace(num_train=fewer)), state


@_told
def _left_at_home(cell: Any, state: Any, holders: Any) -> Any:
    """A client takes part by what it holds."""
    return cell, state.replace(admitted=~holders)


@_told
def _reseeded(cell: Any, state: Any, holders: Any) -> Any:
    """Everybody's noise follows what one client holds."""
    secret = jax.random.fold_in(cell.root.secret, jnp.sum(holders).astype(jnp.uint32))
    return cell.replace(root=cell.root._replace(secret=secret)), state


def _peeking(right: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """The server's model follows what clients hold, drawn or not."""
    state, metrics = right(*given, **named)
    nudge = 1e-3 * jnp.any(_holders(given[2], given[4])).astype(jnp.float32)
    moved = jax.tree.map(lambda leaf: leaf + nudge, state.params)
    return dataclasses.replace(state, params=moved), metrics


def _telling(right: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """The R that is told follows the records where the worst case was to be told."""
    state, metrics = right(*given, **named)
    part = jnp.where(jnp.any(_holders(given[2], given[4])), jnp.float32(0.5), 1)
    told = metrics.clients.released_ratio * part
    clients = dataclasses.replace(metrics.clients, released_ratio=told)
    return state, dataclasses.replace(metrics, clients=clients)


def _louder(right: Callable[..., Any], clipped: Any, *given: Any, **named: Any) -> Any:
    """The noise follows the update."""
    more = jnp.where(jnp.min(clipped[0]["w"]) < 0, 2.0, 1.0)
    return right(clipped, *given, **named | {"std": named["std"] * more})


def _heavier(right: Callable[..., Any], sent: Any, weight: Any) -> Any:
    """A client weighs more whose update has a large negative number."""
    low = jnp.min(jax.tree.leaves(sent)[0]) < -0.1
    return right(sent, jnp.where(low, 3 * weight, weight))


def _unclipped(right: Callable[..., Any], tree: Any, bound: Any) -> Any:
    return right(tree, 10 * bound)


def _overflows(_: Callable[..., Any], tree: Any, bound: Any) -> Any:
    return noise.clip_by_l2_norm(tree, bound)


def _faster(right: Callable[..., Any], clip: Any, share: Any, *given: Any) -> Any:
    return right(clip, 3 * share, *given)


PLAYED_ALWAYS = ("order", "std", "peek")
QUIET = QUICK[0] | {"epsilon": 1e6}
ALL_PUBLIC = BUGS["public training reads the private records too"]
PLANTED: dict[str, tuple[Any, str, Callable[..., Any], dict[str, Any], str]] = {
    "order": (local_training, "local_update", _sorted, QUICK[1], "records"),
    "count": (trainer, "federated_round", _fewer, RECORDS_OF, "counts weights"),
    "cohort": (
        *(trainer, "federated_round", _left_at_home),
        *(RECORDS_OF | {"max_uploads": 4}, "cohort spent"),
    ),
    "key": (trainer, "federated_round", _reseeded, RECORDS_OF, "others moved"),
    "peek": (trainer, "federated_round", _peeking, RECORDS_OF, "absent"),
    "release": (trainer, "federated_round", _telling, QUICK[5], "released"),
    "std": (base, "noised_upload", _louder, QUICK[0], "noise"),
    "weight": (aggregation, "weighted", _heavier, QUIET, "moved"),
    "update clip": (noise, "clip_into_ball", _unclipped, QUICK[0], "moved"),
    "record clip": (noise, "clip_into_ball", _unclipped, RECORDS_OF, "moved"),
    "query clip": (noise, "clip_into_ball", _unclipped, QUICK[3], "moved"),
    "public": (*ALL_PUBLIC[:3], QUICK[3], "public"),
    "overflow": (
        *(noise, "clip_into_ball", _overflows),
        QUICK[0] | {"relation": "add_remove"},  # replaced, it overflows in both worlds
        "finite",
    ),
    "adaptive clip": (dp_fedavg, "adapted_clip", _faster, QUICK[6], "clip"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in PLAYED_ALWAYS else pytest.mark.slow)
        for name in PLANTED
    ],
)
def test_a_planted_violation_is_seen(name: str) -> None:
    where, function, faulty, changes, kinds = PLANTED[name]
    right, overflows = getattr(where, function), name == "overflow"
    with mock.patch.object(where, function, functools.partial(faulty, right)):
        found = broken(Replay(overflows, **changes), OVERFLOWS if overflows else SCALE)
    assert set(kinds.split()) <= found


def test_every_kind_of_violation_is_planted_somewhere() -> None:
    checked = set(re.findall(r'check\("(\w+)"', inspect.getsource(violations)))
    planted_kinds = {kind for *_, kinds in PLANTED.values() for kind in kinds.split()}
    assert planted_kinds == checked


def test_the_filter_shows_one_contribution_and_one_testers_votes() -> None:
    world, told = make_world(), rates(contribution_noise=1.0, influence_clip=0.5)
    key, owner = jax.random.key(3), 4

    def changed(batches: Any) -> Any:
        return batches._replace(x=batches.x.at[owner, 0].multiply(-1e4))

    send = jax.jit(lambda train: lazy.contributions(world.kernel, train, told, key=key))
    one, other = np.asarray(send(world.train)), np.asarray(send(changed(world.train)))
    rest = np.arange(len(one)) != owner
    assert same(one[rest], other[rest])
    moved = np.linalg.norm(one[owner] - other[owner])
    assert 0.1 < moved <= 2 * 0.5 * (1 + 1e-5)
    score = jax.jit(lambda test: lazy.improvements(world.kernel, one, test))
    gained, others = (np.asarray(score(t)) for t in (world.test, changed(world.test)))
    assert same(gained[:, rest], others[:, rest])
    assert not same(gained[:, owner], others[:, owner])
