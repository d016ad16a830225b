"""Turns Flax modules (Linen or NNX) into a `Model`, a pair of pure functions."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import errors

from fedsvp_jax.core.structs import Array, Model, Outputs, Params

if TYPE_CHECKING:
    from flax import nnx


def from_linen(module: nn.Module) -> Model:
    """Wraps a Linen module whose call is `module(x, *, train)` or `module(x)`.

    The collection `params` is trained; all other collections are `stats`.
    """
    takes = inspect.signature(type(module).__call__).parameters
    takes_train = "train" in takes or any(
        p.kind is p.VAR_KEYWORD for p in takes.values()
    )

    def mode(train: bool) -> dict[str, Any]:
        return {"train": train} if takes_train else {}

    def init(key: Array, example: Array) -> tuple[Params, Params]:
        stats = dict(module.init(key, example, **mode(False)))
        return stats.pop("params"), stats

    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> Outputs:
        try:
            logits, new_stats = module.apply(
                {"params": params, **stats},
                x,
                rngs={"dropout": key} if train and key is not None else None,
                mutable=list(stats) if train else [],
                **mode(train),
            )
        except (errors.InvalidRngError, errors.ModifyScopeVariableError) as error:
            raise ValueError(
                f"{type(module).__name__} draws random numbers, or changes its "
                "statistics, where it is not trained; take `train` in its call, and "
                "nn.Dropout(rate, deterministic=not train), "
                "nn.BatchNorm(use_running_average=not train)"
            ) from error
        return logits, {**stats, **new_stats}

    return Model(init, apply)


def from_nnx(constructor: "Callable[[nnx.Rngs], nnx.Module]") -> Model:
    """Wraps an NNX module by splitting it into graph, parameters and the rest.

    Variables of the type `nnx.Param` are trained, and all others are `stats`. The only
    exception is random state such as dropout's, which each call derives from its `key`.

    Args:
      constructor: `nnx.Rngs -> module`; the module is called as `module(x)`, after
        `module.train()` or `module.eval()`. The constructor is called twice:
        abstractly for the graph, and in `init` with its key for the parameters.
    """
    from flax import nnx

    def split(module: nnx.Module) -> tuple[Any, ...]:
        return nnx.split(module, nnx.Param, nnx.RngState, ...)

    graph, _, random_shapes, _ = split(nnx.eval_shape(lambda: constructor(nnx.Rngs(0))))
    random_leaves, random_tree = jax.tree.flatten(random_shapes)

    def random_state(key: Array) -> Any:
        leaves = [
            jax.random.fold_in(key, i)
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            else jnp.zeros(leaf.shape, leaf.dtype)
            for i, leaf in enumerate(random_leaves)
        ]
        return jax.tree.unflatten(random_tree, leaves)

    def init(key: Array, example: Array) -> tuple[Params, Params]:
        del example  # an NNX module already knows the shape of its input
        _, params, _, stats = split(constructor(nnx.Rngs(key)))
        return nnx.to_pure_dict(params), nnx.to_pure_dict(stats)

    def apply(
        params: Params, stats: Params, x: Array, *, train: bool, key: Array | None
    ) -> Outputs:
        if key is None:
            if train and random_leaves:
                raise ValueError("key must be given to train a model with dropout")
            key = jax.random.key(0)  # evaluation draws nothing
        module = nnx.merge(
            graph, nnx.State(params), random_state(key), nnx.State(stats)
        )
        module.train() if train else module.eval()
        logits = module(x)
        *_, new_stats = split(module)
        return logits, nnx.to_pure_dict(new_stats) if train else stats

    return Model(init, apply)


def in_dtype(model: Model, dtype: str) -> Model:
    """The model with its products computed in another number format.

    `apply` rounds the parameters and the inputs to `dtype` and returns logits and stats
    in float32. Its gradients are float32, with respect to float32 parameters, the
    "master weights" of Micikevicius et al. 2018 (arXiv 1710.03740, section 3.1). With
    "float32" it is the model itself.
    """
    if dtype == "float32":
        return model

    def apply(params: Params, stats: Params, x: Array, **mode: Any) -> Outputs:
        rounded = optax.tree.cast(params, dtype)
        logits, new_stats = model.apply(rounded, stats, x.astype(dtype), **mode)
        return logits.astype(jnp.float32), optax.tree.cast_like(new_stats, stats)

    return model._replace(apply=apply, gradient_scale=None)
