"""A server that runs command lines, each in a fork of what it imported once.

  python command_lines.py

For every line of standard input, a JSON list as ["experiments.train", "--seed=1"] or
["-c", "print(1)"], it prints one line of JSON: `{status, stdout, stderr}`. A fork comes
before JAX starts its devices, so each command line finds the process as `python -m
MODULE` would, without the seconds of imports.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import runpy
import signal
import sys
import tempfile
import traceback
import warnings

import fedsvp_jax

_SECONDS = 300  # a command line that takes longer is killed
# What commands import where they use it; several of them do.
_USED = (
    "dp_accounting.pld.privacy_loss_distribution",
    "dp_accounting.rdp.rdp_privacy_accountant",
    "experiments.messages",
    "plotly.offline",
    "scipy.stats",
    "sklearn.metrics",
)

# Adapters need their engines, which the tests' environment does not have.
_OTHERS = (
    *("deploy.flower", "deploy.flower_sums", "deploy.flower_tables"),
    *("deploy.nvflare", "deploy.pfl"),
)


def _import_all() -> None:
    modules = pkgutil.walk_packages(fedsvp_jax.__path__, "fedsvp_jax.")
    for name in (module.name for module in modules):
        if not name.endswith(_OTHERS):
            importlib.import_module(name)
    for name in _USED:  # the environment of the engines has not all
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _child(arguments: list[str], out: int, err: int) -> None:
    status = 70
    try:
        signal.alarm(_SECONDS)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            exec(arguments[1], {"__name__": "__main__"})
        else:
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
    _import_all()
    warnings.resetwarnings()
    warnings.filterwarnings("ignore", "os.fork")  # JAX warns of forks in general
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)
