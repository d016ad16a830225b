"""Where in a run something is computed: the round, the client, the lane."""

import dataclasses

from fedsvp_jax import prng
from fedsvp_jax.prng import AnyKey, Stream
from fedsvp_jax.structs import Array


@dataclasses.dataclass(frozen=True)
class Address:
    """From here every purpose of a client has a key of its own.

    Attributes:
      key: the round's.
      client: () int32, the client's id.
      round_num: () int32, from 0.
      lane_axes: names of the enclosing vmap axes.
    """

    key: AnyKey
    client: Array | int
    round_num: Array | int = 0
    lane_axes: tuple[str, ...] = ()

    def stream(self, purpose: Stream) -> Array:
        """The client's key for a purpose, in this round."""
        return prng.stream_key(self.key, purpose, self.client)
