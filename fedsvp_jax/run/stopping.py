"""SIGINT and SIGTERM as a request: finish what is in flight, save, then stop."""

import os
import signal
import threading
from types import FrameType
from typing import NoReturn, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal ended the work at a place from which it goes on."""

    def __init__(self, signal_number: int, where: str = "") -> None:
        name = signal.Signals(signal_number).name
        super().__init__(
            f"stopped by {name}{where and f' {where}'}; go on with the same command "
            "and --resume"
        )
        self.signal_number = signal_number


def stop_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """A signal's handler for work that saves nothing before it ends."""
    raise Stopped(number)


class StopRequests:
    """While entered, the first signal is a request and a second one exits at once.

    Python runs a signal's handler between two steps of the main thread, so not while
    a compiled call is in flight. The wakeup descriptor is written at once; a thread
    reads it and counts. Outside the main thread, which alone may set handlers,
    nothing is changed and nothing is ever requested.
    """

    def __init__(self) -> None:
        self.received: int | None = None  # the first signal

    def __enter__(self) -> Self:
        self._entered = threading.current_thread() is threading.main_thread()
        if not self._entered:
            return self
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._writes, False)
        self._old_descriptor = signal.set_wakeup_fd(self._writes)
        # Its handler does nothing: the wakeup descriptor tells of the signal.
        self._old = {n: signal.signal(n, lambda *_: None) for n in _SIGNALS}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._entered:
            return
        for number, handler in self._old.items():
            if handler is not None:  # None: set by no Python code
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        os.close(self._writes)
        self._thread.join()
        os.close(self._reads)

    def _watch(self) -> None:
        while received := os.read(self._reads, 1):
            if received[0] not in _SIGNALS:
                continue
            if self.received is not None:
                os._exit(128 + received[0])
            self.received = received[0]
