"""Answers for the nodes of one machine in one process, which has imported JAX once.

Flower 1.42 starts `flwr-clientapp` for every message: four processes a node and a
round, of which three only exchange keys. Here `flwr-clientapp` of a folder that stands
first in PATH hands its arguments to this process, which runs Flower's own function one
after another. For trials of many nodes on few cores: real sites have a machine each.

    python examples/flower_sums/one_process.py PORT FOLDER
"""

import argparse
import pathlib
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from flwr.supercore.exit import ExitCode
from flwr.supercore.tls import validate_and_resolve_root_certificates
from flwr.supernode.cli.flwr_clientapp import _parse_args_run_flwr_clientapp
from flwr.supernode.runtime.run_clientapp import run_clientapp as run_one

import fedsvp_jax.deploy.flower_tables  # noqa: F401  # imported once for all

SCRIPT = """#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{}
echo "$@" >&3
read -r status <&3
exit "$status"
"""
run_clientapp: Any = sys.modules["flwr.supernode.runtime.run_clientapp"]
_handlers: list[Callable[[], None]] = []


class Ended(Exception):
    """In the place of the end of the process."""


def _exit(code: int, *_: Any, **__: Any) -> None:
    raise Ended(code)


def _register(*_: Any, exit_handlers: Any = (), **__: Any) -> None:
    _handlers[:] = exit_handlers


def answer(arguments: argparse.Namespace) -> int:
    """One message; the exit status of its process."""
    code: int = ExitCode.SUCCESS
    try:
        run_one(
            runtime_api_address=arguments.runtime_api_address,
            token=arguments.token,
            insecure=arguments.insecure,
            certificates=validate_and_resolve_root_certificates(
                arguments.root_certificates, arguments.insecure
            ),
        )
    except Ended as ended:
        (code,) = ended.args
    except Exception:  # the node goes on
        traceback.print_exc()
        code = 1
    for handler in _handlers:
        handler()
    return 0 if code < 100 else 1


def main(port: int, folder: pathlib.Path) -> None:
    """Writes FOLDER/flwr-clientapp and serves it."""
    run_clientapp.flwr_exit = _exit
    run_clientapp.register_signal_handlers = _register
    parser = _parse_args_run_flwr_clientapp()
    folder.mkdir(exist_ok=True)
    script = folder / "flwr-clientapp"
    script.write_text(SCRIPT.format(port))
    script.chmod(0o755)
    with socket.create_server(("127.0.0.1", port), backlog=64) as server:
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as file:
                arguments, _ = parser.parse_known_args(file.readline().split())
                print(answer(arguments), file=file, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), pathlib.Path(sys.argv[2]))
