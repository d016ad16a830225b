"""Placement and options of a run, from the flags of `command`."""

from typing import Any

from absl import flags

from fedsvp_jax.devices import processes
from fedsvp_jax.run.options import Options

from . import command


def placement(values: flags.FlagValues, **fields: int) -> Any:
    """The `Placement` that the flags of `define_running` name."""
    import jax

    from fedsvp_jax.run.placement import Placement

    num_devices = values.num_devices
    if num_devices is None:
        everyone = jax.device_count() // fields.get("sweep_devices", 1)
        num_devices = max(1, everyone) if processes.several() else 1
    return Placement(
        num_devices=num_devices, rounds_per_call=values.rounds_per_call, **fields
    )


def options(values: flags.FlagValues, **fields: Any) -> Options:
    """The `Options` that the flags of `define_running` name."""
    return Options(
        resume=values.resume,
        checkpoint_every=values.checkpoint_every,
        on_divergence=values.on_divergence,
        progress=command.shows_progress(values),
        loggers=values.logger,
        **fields,
    )
