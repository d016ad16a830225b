"""Digests of code from outside: a model, a loss, a mechanism, an aggregator.

Settings name such code, but do not say what it computes. Its traced program does: the
operations and every number that a function closes over or is given. A jaxpr is read and
not StableHLO, which follows the device, and not a round's, which follows the layout.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, MechanismState, Model, Params, Weights
from fedsvp_jax.federation.client_data import FederatedData
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    make_mechanism,
    nothing_private,
)
from fedsvp_jax.models import adapters
from fedsvp_jax.round.private_query import QueryParts
from fedsvp_jax.round.state import Aggregator, Upload


def traced_sha256(function: Callable[..., Any], *args: Any) -> str:
    """SHA-256 of a function's traced program, the same in every process.

    The text of a program lacks the arrays that are closed over and those that it is
    given, so they are hashed beside it. Of Python functions, such as rules of
    differentiation, it has the names alone, without addresses: trace gradients to see
    their rules.

    Args:
      function: traceable.
      args: arrays, whose numbers count, or their shapes.

    Raises:
      ValueError: the program calls Python code on the host, which no trace shows.
    """
    traced = jax.make_jaxpr(function)(*args)
    digest = hashlib.sha256(str(traced).encode())
    for array in (array for part in (traced, args) for array in _arrays(part)):
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        numbers = np.ascontiguousarray(array)
        digest.update(f"{numbers.dtype} {numbers.shape}".encode() + numbers.tobytes())
    return digest.hexdigest()


def _arrays(part: Any) -> Iterator[Any]:
    """The arrays of a tree and of the programs in it, in their order."""
    for leaf in jax.tree.leaves(
        part, is_leaf=lambda leaf: isinstance(leaf, ClosedJaxpr | Jaxpr)
    ):
        if isinstance(leaf, ClosedJaxpr):
            yield from leaf.consts
            leaf = leaf.jaxpr
        if isinstance(leaf, Jaxpr):
            for equation in leaf.eqns:
                _check_traced(equation)
                yield from _arrays(list(equation.params.values()))
        elif isinstance(leaf, jax.Array | np.ndarray | np.generic):
            yield leaf


def _check_traced(equation: Any) -> None:
    """Refuses a call of the host, but for this package's own and for mere prints."""
    called = equation.params.get("callback")
    called = getattr(called, "callback_func", called)
    module = getattr(getattr(called, "func", called), "__module__", None) or ""
    is_ours = module.startswith("fedsvp_jax.")
    if called is not None and equation.outvars and not is_ours:
        raise ValueError(
            f"a model, loss or mechanism of your own calls Python by "
            f"{equation.primitive.name}, and the digest that gives each run a noise of "
            "its own cannot read that code: write it in JAX, or set paired_noise, with "
            "which no claim is proved"
        )


def of_model(model: Model, data: FederatedData, *, batch_size: int, dtype: str) -> str:
    """The digest of a model and its loss.

    Its program initialises, trains, differentiates and evaluates the model.

    A batch is traced, and the same examples side by side as batches of one.

    Args:
      batch_size: of a local step.
      dtype: of the products in training (`adapters.in_dtype`).
    """
    key, trained_model = prng.root_key(0), adapters.in_dtype(model, dtype)
    params, stats = model.shapes(data.example)
    inputs, targets = (
        jax.ShapeDtypeStruct((batch_size, *leaf.shape[1:]), leaf.dtype)
        for leaf in (data.example, data.examples.wanted)
    )

    def passes(params: Params, stats: Params, x: Array, y: Array, key: Array) -> Any:
        def total(params: Params, model: Model, **how: Any) -> tuple[Array, Any]:
            outputs, moved = model.apply(params, stats, x, **how)
            return jnp.sum(model.loss(outputs, y)), (outputs, moved)

        gradient = jax.value_and_grad(total, has_aux=True)
        trained = gradient(params, trained_model, train=True, key=key)
        asked = gradient(params, model, train=False, key=None)  # as a private query
        return trained, asked

    def program(params: Params, stats: Params, x: Array, y: Array, key: Array) -> Any:
        singly = jax.vmap(passes, (None, None, 0, 0, None))
        return (
            model.init(key, x[:1]),
            passes(params, stats, x, y, key),
            singly(params, stats, x[:, None], y[:, None], key),
        )

    return traced_sha256(program, params, stats, inputs, targets, key)


def of_mechanism(
    name: str,
    concrete: Mechanism,
    settings: MechanismConfig,
    model: Model,
    data: FederatedData,
    query_parts: QueryParts,
) -> str:
    """The digest of a mechanism.

    Its program makes an upload, the noise of a step and the server's part, and gives
    what the mechanism promises.

    Args:
      name: under which it is registered.
      concrete: made from `settings`; a round makes it anew, of traced numbers.
      query_parts: the parts of the model that a query is about; (): all is noised.
    """

    def program(
        settings: MechanismConfig,
        updates: Params,
        memory: MechanismState,
        key: Array,
        num_examples: Array,
        ratio: Array,
        round_num: Array,
        params: Params,
    ) -> Any:
        mechanism = make_mechanism(name, settings)
        noised, after, info = mechanism.update(
            updates,
            memory.of(0),
            key=key,
            num_examples=num_examples,
            contribution_ratio=ratio,
            round_num=round_num,
            params=params,
        )
        step = server = None
        if mechanism.step_noise_std is not None:
            step = mechanism.step_noise_std(ratio, round_num=round_num)
        if mechanism.server is not None:
            server = mechanism.server(
                noised,
                params,
                memory,
                key=key,
                round_num=round_num,
                infos=jax.tree.map(lambda x: jnp.full(settings.cohort_size, x), info),
                valid=jnp.ones(settings.cohort_size, bool),
            )
        promised = concrete.least_multiplier, concrete.most_epsilon, concrete.most_delta
        average = concrete.uniform_weights, concrete.claim.central, grid
        ratio_cost = concrete.needs_contribution, concrete.release_epsilon
        first = mechanism.init(settings.num_clients)
        return (
            *(noised, after, info, step, server),
            *(promised, average, ratio_cost, first),
        )

    params = data.noised_part(model, query_parts)
    grid = concrete.grid and concrete.grid._replace(apart=None)
    memory = concrete.init(settings.num_clients)
    call = params, memory, prng.root_key(0), np.int32(1), np.float32(1), np.int32(1)
    return traced_sha256(program, jax.tree.map(np.float32, settings), *call, params)


def of_aggregator(
    aggregator: Aggregator,
    mechanism: Mechanism,
    settings: MechanismConfig,
    model: Model,
    data: FederatedData,
) -> str:
    """The digest of an aggregator, which encodes an upload and decodes a round's."""
    info = jax.tree.map(np.asarray, nothing_private().visible_to_server())
    places = settings.cohort_size
    infos = jax.tree.map(lambda leaf: jnp.full(places, leaf), info)

    def program(params: Params, stats: Params, stacked: Weights, valid: Array) -> Any:
        upload = Upload(params, [])
        return (
            aggregator.encode(mechanism, upload, info),
            aggregator.decode(mechanism, upload, stacked, infos, valid),
        )

    weights = model.shapes(data.example)
    stacked = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((places, *leaf.shape), leaf.dtype), weights
    )
    valid = jax.ShapeDtypeStruct((places,), bool)
    return traced_sha256(program, *weights, stacked, valid)
