"""The device that a program is made for, and every choice that depends on it.

A target is a value. `current_target` is the device that this process computes on;
`named_target` need not be present, since its compiler runs without it
(docs/performance.md). The choices rest on counted cost: milliseconds on CPU cores, the
TPU compiler's cycles, and the kernels that a GPU is told to start.
"""

import os
from typing import Literal, NamedTuple

import jax

_MEMORY = {"cpu": 0, "tpu": 16 * 10**9, "cuda": 80 * 10**9}  # v5e, H100
# Copies in a training: broadcast, trained and written weights, gradient, update.
_COPIES = 5
# On a TPU, weights of all trainings side by side that stay in its fast memory of 128 MB
# from step to step. W1's step costs 156 thousand cycles a client when each trains
# alone, 183 thousand in twos, and 440 thousand in tens, whose weights do not fit.
_FAST_BYTES = 32 * 10**6
# On a CPU, weights of all clients side by side: beyond it memory is what they cost.
_SMALL_BYTES = 2**27
# Weights with which clients train on CPU devices of their own: with fewer a turn is
# short beside the wait for one another, with more than fit the room memory costs more.
_LEAST_APART = 2**20
_ROOM_APART = 2**32
_GRAPHS: dict[str, str | bool] = {
    # XLA's own choice with loops and convolutions.
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,"
    "DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE,CONVOLUTION",
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
}


class Parallelism(NamedTuple):
    """The numbers of clients, coalitions and cells in one vmapped program."""

    clients: int
    coalitions: int
    cells: int

    @property
    def is_single(self) -> bool:
        """Whether a cell's trainings run one after another."""
        return self.clients == self.coalitions == 1


class Target(NamedTuple):
    """A device that programs are made for.

    Attributes:
      platform: whose compiler, and which set of `models.kernels`.
      memory: bytes of the device; half of it is a program's. 0 on a CPU, whose
        programs never choose by it.
    """

    platform: Literal["cpu", "cuda", "tpu"]
    memory: int

    @property
    def known_trips(self) -> bool:
        """Whether loops over lanes have a number of turns known to the compiler.

        On a GPU the host waits before each turn of any other. On a TPU a client in a
        branch of its own is written to slow memory and back.
        """
        return self.platform != "cpu"

    @property
    def norms_in_stages(self) -> bool:
        """Whether norms add up in stages.

        A tree moves a TPU's numbers log2 n times. A GPU's compiler writes the end of a
        tree out, number by number: W1 compiles in 9.4 CPU seconds, with trees in 12.9.
        """
        return self.platform != "cpu"

    def known_steps(self, parallelism: Parallelism) -> bool:
        """Whether the loop over a training's steps has such a number too.

        Side by side, lanes idle until the longest is done; on a TPU and alone, a
        training ends with its client.
        """
        is_alone = self.platform == "tpu" and parallelism.is_single
        return self.platform != "cpu" and not is_alone

    def fewer_kernels(self, parallelism: Parallelism) -> bool:
        """Whether a training's first step precedes the loop over the others, its loss
        scatters nothing, and the sum that shows an upload's finiteness adds up in
        stages, as its norm does.

        By itself the first step reads the broadcast weights, from which all lanes
        start, once, and convolutions with them are not grouped: 1.7 GB less in W1, for
        a sixth of the compiler's time. A scatter takes 15 kernels of W1's round, and 47
        where cuDNN may not use atomics. In stages norm and sum read the upload in one
        pass. A TPU v5e needs no stages for that: they cost W1 13 thousand cycles a
        client, and the step apart costs W2 25 thousand a round.
        """
        return self.platform == "cuda" and not parallelism.is_single

    def client_devices(
        self, available: int, *, turns: int, weights: int, data: int
    ) -> int:
        """The default number of devices that share a cohort's clients.

        A CPU's devices are its cores. A client alone keeps 1.6 of two cores busy in W1
        (BUILD_NOTES.md), and two clients side by side both. Elsewhere it is 1, and
        a user who wants more says so. `turns` are the cohort's chunks; `weights` and
        `data` are bytes, of which every device has copies.
        """
        if self.platform != "cpu" or weights < _LEAST_APART:
            return 1
        room = _ROOM_APART // (_COPIES * weights + data)
        return max(1, min(available, turns, room))

    @property
    def compiler_options(self) -> dict[str, str | bool] | None:
        """XLA's options for the rounds; XLA_FLAGS, which names the same one, wins.

        A GPU starts whole loops and branches by itself, as CUDA graphs, in place of one
        kernel after another at the host's word. In a graph kernels wait only for those
        whose results they read.
        """
        flags = os.environ.get("XLA_FLAGS", "")
        named = {name: value for name, value in _GRAPHS.items() if name not in flags}
        return named if self.platform == "cuda" else None

    def parallelism(
        self,
        *,
        clients: int,
        coalitions: int,
        weights: int,
        activations: int,
        alike: bool,
    ) -> Parallelism:
        """The default numbers of clients, coalitions and cells that run side by side.

        Clients come first, then the coalitions of each, then the cells of a sweep.
        `weights` and `activations` are bytes: of the model, and of what the gradient of
        one batch keeps. `alike`: the model's kernels gain by it and the clients are of
        one size.
        """
        if self.platform == "cpu":
            small = clients * weights <= _SMALL_BYTES
            return Parallelism(clients if alike and small else 1, 1, 1)
        room = self.memory // 2 // (_COPIES * weights + activations)
        if self.platform == "tpu":
            room = min(room, _FAST_BYTES // weights)
        num_clients = _even(clients, room)
        num_coalitions = _even(coalitions, room // num_clients)
        return Parallelism(
            num_clients, num_coalitions, max(1, room // (num_clients * num_coalitions))
        )


def _even(count: int, room: int) -> int:
    """The least chunk that takes as few turns as one of `room` does."""
    turns = -(-count // max(1, min(room, count)))
    return -(-count // turns)


def current_target() -> Target:
    """The device that JAX computes on.

    Raises:
      ValueError: JAX is told to stop at NaN or infinity, which say here that a number
        is not known.
    """
    for name in ("jax_debug_nans", "jax_debug_infs"):
        if getattr(jax.config, name):
            raise ValueError(
                f"{name.upper()} must be off: NaN and infinity stand for numbers that "
                "are not known. A run stops by itself at an upload or a model that "
                "holds any, and names the round and the client"
            )
    device = jax.devices()[0]
    platform = {"gpu": "cuda"}.get(device.platform, device.platform)
    if platform == "cpu":
        return named_target("cpu")
    memory = (device.memory_stats() or {}).get("bytes_limit")
    return named_target(platform, memory)


def named_target(platform: str, memory: int | None = None) -> Target:
    """A target that need not be present; its memory is a v5e's or an H100's if None."""
    if platform not in _MEMORY:
        raise ValueError(
            f"target must be one of {', '.join(_MEMORY)}, got {platform!r}"
        )
    return Target(platform, memory or _MEMORY[platform])  # type: ignore[arg-type]
