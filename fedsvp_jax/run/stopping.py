"""SIGINT and SIGTERM as a request: finish what is in flight, save, then stop."""

import signal
import threading
from types import FrameType
from typing import Any, NoReturn, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal ended the work at a place from which it goes on."""

    def __init__(self, signal_number: int, where: str) -> None:
        name = signal.Signals(signal_number).name
        super().__init__(
            f"stopped by {name} {where}; go on with the same command and --resume"
        )
        self.signal_number = signal_number


def stop_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """A signal's handler for work that saves nothing before it ends."""
    raise Stopped(number, "between two steps, where what was not saved is lost")


class StopRequests:
    """While entered, the first signal is a request; the next ends the process at once.

    Python runs a signal's handler between two steps of the main thread, so not while
    a compiled call is in flight. Outside the main thread, which alone may set handlers,
    nothing is changed and nothing is ever requested.
    """

    def __init__(self) -> None:
        self.received: int | None = None  # this process's first signal
        self._former: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._former = {n: signal.signal(n, self._receive) for n in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._former.items():
            if handler is not None:  # None: set by no Python code
                signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
