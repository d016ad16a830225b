"""Processes that are forked of one which has imported what they need."""

import functools
import multiprocessing
import os
import sys
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from unittest import mock


@functools.cache
def forks() -> ForkServerContext:
    """The context of a server of forks, which has started.

    The server finds modules by the environment alone: multiprocessing tells it a path
    that it does not read, and what it cannot import, each fork would import for itself.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["races", "saved_work"])
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()
    return context
