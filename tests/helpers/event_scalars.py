"""Reads TensorBoard event files: what was written, by tag, as (step, value)."""

import pathlib
import struct

from tensorboardX.proto.event_pb2 import Event


def event_scalars(folder: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    """The scalars of all event files of one folder, in the order of writing.

    A record is its length (8 bytes), a checksum (4), the event, a checksum (4).
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        content, at = file.read_bytes(), 0
        while at < len(content):
            (length,) = struct.unpack_from("<Q", content, at)
            event = Event.FromString(content[at + 12 : at + 12 + length])
            at += length + 16
            for value in event.summary.value:
                scalar = (event.step, value.simple_value)
                found.setdefault(value.tag, []).append(scalar)
    return found
