"""Runs many command lines in one process: each in a fork of what is imported once.

  python command_lines.py < '[["experiments.train", "--epsilon=-1"], …]'

Prints a JSON list of `{status, stdout, stderr}`. A fork comes before JAX starts its
devices, so each command line finds the process as `python -m MODULE` would.
"""

import json
import os
import runpy
import sys
import tempfile
import traceback
import warnings

import sklearn.datasets  # noqa: F401

import fedsvp_jax.run  # noqa: F401


def _child(arguments: list[str], out: int, err: int) -> None:
    status = 70
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(arguments: list[str]) -> dict[str, object]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _child(arguments, out.fileno(), err.fileno())
        _, ended = os.waitpid(child, 0)
        for file in (out, err):
            file.seek(0)
        return {
            "status": os.waitstatus_to_exitcode(ended),
            "stdout": out.read().decode(),
            "stderr": err.read().decode(),
        }


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # JAX warns of forks in general
    json.dump([_run(arguments) for arguments in json.load(sys.stdin)], sys.stdout)
