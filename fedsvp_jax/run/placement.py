"""The layout of the work over devices."""

import dataclasses

import jax
from jax.sharding import AxisType, Mesh

from fedsvp_jax.devices import lanes


@dataclasses.dataclass(frozen=True)
class Placement:
    """The layout of the work over devices; only `cell_chunk_size` can change numbers.

    Attributes:
      num_devices: devices on the mesh's client axis. 0: as many as a program gains by
        (`Target.client_devices`).
      sweep_devices: devices on the mesh's sweep axis; divides the cells.
      cell_chunk_size: the most cells of a device that run side by side (vmapped). Their
        number divides the device's cells, and the others wait their turn. None: as many
        as the target has room for, 1 on a CPU. Above 1 the numbers differ from a single
        run's in their last bits, so a sweep records it.
      rounds_per_call: rounds between two looks at the results.
    """

    num_devices: int = 0
    sweep_devices: int = 1
    cell_chunk_size: int | None = None
    rounds_per_call: int = 1

    def mesh(self) -> Mesh:
        """The mesh of the axes `sweep` and `clients`.

        Raises:
          ValueError: JAX sees fewer devices.
        """
        count = self.num_devices * self.sweep_devices
        if count > jax.device_count():
            raise ValueError(
                "num_devices times sweep_devices must be at most "
                f"{jax.device_count()}, the devices that JAX sees, got {count}"
            )
        return jax.make_mesh(
            (self.sweep_devices, self.num_devices),
            (lanes.SWEEP_AXIS, lanes.CLIENT_AXIS),
            axis_types=(AxisType.Auto, AxisType.Auto),
            devices=jax.devices()[:count],
        )
