"""The data structures that the modules hand to one another.

Every array leaf's shape stands beside it. `M` is the number of clients, `K` the
cohort's size, `N` the number of attributes, `n` the number of examples.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax

Array = jax.Array
Number = Array | np.float32 | float  # of shape (), or a plain one
Params = Any  # a pytree of float arrays
Outputs = tuple[Array, Params]  # of a batch, and the statistics after it
# (outputs (b, ...), targets (b, ...)) -> (b,) float32
Loss = Callable[[Array, Array], Array]
cross_entropy: Loss = optax.softmax_cross_entropy_with_integer_labels


# JAX keeps an entry for every `jit` of a function, and `eval_shape` makes one.
_jitted = lru_cache(maxsize=8)(jax.jit)


def iota(count: int) -> Array:
    """(count,) int32: 0, 1, …, count − 1, for places, rows, clients or rounds."""
    return jnp.arange(count, dtype=jnp.int32)


class Model(NamedTuple):
    """A model is a pair of pure functions.

    Attributes:
      init: `(key, example) -> (params, stats)`; `example` is one input batch
        `(batch, *example_shape)`; `stats` holds un-trained statistics
        (BatchNorm's) and is `{}` for a model that keeps none.
      apply: `(params, stats, x, *, train, key) -> (logits, stats)`; `key` is
        read by dropout alone and only when `train` is true (else it may be None).
      gradient_scale: of a model whose logits are W x + b, `x (n, f) -> (n,)`: the norm
        of an example's gradient over that of its gradient by the logits,
        sqrt(1 + ‖x‖²). None where no such formula holds.
      loss: of each example by itself; training lowers it and evaluation reports it.
        `losses.of_examples` makes one.
    """

    init: Callable[..., tuple[Params, Params]]
    apply: Callable[..., Outputs]
    gradient_scale: Callable[[Array], Array] | None = None
    loss: Loss = cross_entropy

    def shapes(self, example: Array | jax.ShapeDtypeStruct) -> "Weights":
        """The shapes and types of what `init` gives, which is not computed."""
        return Weights(*_jitted(self.init).eval_shape(jax.random.key(0), example))


@flax.struct.dataclass
class Examples:
    """Labelled examples, kept on the device as they were stored."""

    inputs: Array  # (n, *example_shape) uint8 pixels, or float32 features
    labels: Array  # (n,) int32
    attributes: Array  # (n,) int32 attribute id in [0, N)
    targets: Array | None = None  # (n, ...) float32 or int32; None: the labels are
    persons: Array | None = None  # (n,) int32 whose each is; None: rows are the unit

    @property
    def loss_targets(self) -> Array:
        """(n, ...) the targets of the model's loss: `targets`, else the labels."""
        return self.labels if self.targets is None else self.targets


class Weights(NamedTuple):
    """A model's numbers: the trained parameters, and the statistics that it keeps."""

    params: Params
    stats: Params


class Rows(NamedTuple):
    """The examples of one training."""

    examples: "Examples"
    indices: Array  # (m,) int32 rows of `examples`, padded
    member: Array  # (m,) bool: which of them count


@flax.struct.dataclass
class Split:
    """The examples of each client: one seed's federation.

    Rows are padded with index 0; the counts say where the padding starts.
    """

    train: Array  # (M, max_train) int32 indices into Examples
    num_train: Array  # (M,) int32
    validation: Array  # (M, max_validation) int32 indices into Examples
    num_validation: Array  # (M,) int32


@flax.struct.dataclass
class MechanismState:
    """A mechanism's memory: a few numbers, never parameter-sized."""

    clients: dict[str, Array]  # each (M,) float32; inside `update` each ()
    shared: dict[str, Array]  # each () float32, a key's words (2,) uint32

    def of(self, client: Array | int) -> "MechanismState":
        """The memory as one client's `update` sees it."""
        clients = jax.tree.map(lambda leaf: leaf[client], self.clients)
        return self.replace(clients=clients)  # type: ignore[attr-defined]

    def updated(self, clients: Array, states: "MechanismState") -> "MechanismState":
        """The memory after a round's clients changed theirs.

        Args:
          clients: (K,) int32; ids from M on are empty places, which change nothing.
          states: what `update` returned, leaves (K,).
        """
        after = jax.tree.map(
            lambda leaf, new: leaf.at[clients].set(new, mode="drop"),
            self.clients,
            states.clients,
        )
        return self.replace(clients=after)  # type: ignore[attr-defined]


@flax.struct.dataclass
class NoiseInfo:
    """The noise that a mechanism added to one upload, as the account reads it."""

    noise_multiplier: Array  # () float32: z that the ledger counts; 0: no noise
    noise_std: Array  # () float32: std on every coordinate of the upload
    step_noise_std: Array  # () float32: std on every local step's batch-mean gradient
    noise_l2: Array  # () float32: L2 norm of the noise on the upload
    sensitivity: Array  # () float32: L2 sensitivity of what is noised, upload or step
    epsilon: Array  # () float32: claimed for this upload; inf without noise
    delta: Array  # () float32: claimed for this upload; 0 without noise
    risk_tolerance: Array  # () float32: T of FedSVA/FedSDP, nan for the others
    clipped: Array  # () float32: 1 where the mechanism clipped the upload, else 0

    def visible_to_server(self) -> "NoiseInfo":
        """The fields that the server may read: nan stands for what no noise hides."""
        hidden = np.full(self.clipped.shape, np.nan, np.float32)
        return self.replace(noise_l2=hidden, clipped=hidden)  # type: ignore[attr-defined]
