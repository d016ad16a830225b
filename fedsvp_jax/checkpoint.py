"""Checkpoints through orbax: what a run needs to go on to the same bits."""

import pathlib
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp


class Checkpointer:
    """Keeps the newest checkpoints of one run; a checkpoint is named by its round.

    Orbax writes into a temporary folder and renames it, so a killed save leaves
    the older checkpoints whole.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        own = jax.process_index()  # the others of a run do not take part
        options = ocp.CheckpointManagerOptions(
            max_to_keep=2,
            create=False,
            enable_async_checkpointing=False,
            multiprocessing_options=ocp.options.MultiprocessingOptions(
                primary_host=own, active_processes={own}
            ),
        )
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def latest_round(self) -> int | None:
        """Rounds done in the newest checkpoint, None without one."""
        return self._manager.latest_step()

    def save(self, round_num: int, state: Any) -> None:
        """Saves a pytree of arrays after `round_num` rounds; returns when on disk."""
        if self._manager.latest_step() != round_num:
            host = jax.tree.map(np.asarray, jax.device_get(state))
            self._manager.save(round_num, args=ocp.args.StandardSave(host))
            self._manager.wait_until_finished()

    def restore(self, like: Any) -> Any:
        """The newest checkpoint, as numpy arrays in the structure of `like`."""
        target = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
        return self._manager.restore(
            self._manager.latest_step(), args=ocp.args.StandardRestore(target)
        )

    def close(self) -> None:
        """Releases orbax's threads."""
        self._manager.close()
