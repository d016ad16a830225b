"""absl flags, made from the settings' own names, defaults, limits and help."""

import dataclasses
import logging as std_logging
import os
import pathlib
import signal
import sys
import threading
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.devices import processes
from fedsvp_jax.run import stopping

_DEFINERS: dict[type, Callable[..., Any]] = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def _kind(annotation: Any) -> type:
    """`float | None` -> float."""
    if isinstance(annotation, types.UnionType):
        return next(t for t in typing.get_args(annotation) if t is not type(None))
    return annotation


def define_settings(*, without: Sequence[str] = ()) -> None:
    """One flag for each field of ExperimentConfig that is not in `without`."""
    hints = typing.get_type_hints(ExperimentConfig)
    for field in dataclasses.fields(ExperimentConfig):
        if field.name in without:
            continue
        text = field.metadata["help"]
        if field.metadata["choices"]:
            text += f" One of: {', '.join(field.metadata['choices'])}."
        _DEFINERS[_kind(hints[field.name])](field.name, field.default, text)


def settings_from_flags(values: flags.FlagValues, **more: Any) -> ExperimentConfig:
    """The resolved settings that the command line names."""
    chosen: dict[str, Any] = {
        field.name: values[field.name].value
        for field in dataclasses.fields(ExperimentConfig)
        if field.name in values
    }
    return resolve(ExperimentConfig(**(chosen | more)))


def define_output(*, required: bool = True) -> None:
    """Flags of every experiment: where its files and compiled programs go."""
    flags.DEFINE_string("output_dir", None, "Folder for everything that is written.")
    flags.DEFINE_bool(
        "resume",
        False,
        "Go on with the run that output_dir holds, and start it where the folder is "
        "new or empty: a job script may always pass it.",
    )
    flags.DEFINE_string(
        "compilation_cache_dir",
        os.environ.get("JAX_COMPILATION_CACHE_DIR")
        or os.path.join(os.path.expanduser("~"), ".cache", "fedsvp_jax"),
        "Where compiled programs are kept between starts; empty for nowhere. JAX's own "
        "environment variable JAX_COMPILATION_CACHE_DIR sets the default.",
    )
    if required:
        flags.mark_flag_as_required("output_dir")


def define_running() -> None:
    """Flags of long work: how it is laid out, saved and shown, not its numbers."""
    flags.DEFINE_integer(
        "num_devices",
        None,
        "Devices that share a cohort's clients. Default: 1; of several processes, all.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "rounds_per_call",
        5,
        "Rounds in one compiled call, between two looks at the results.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "checkpoint_every", 10, "Rounds between checkpoints.", lower_bound=1
    )
    flags.DEFINE_enum(
        "on_divergence",
        "stop",
        ["stop", "continue"],
        "What NaN or infinity in an upload does: stop the run, or continue with a "
        "warning (the files then hold null).",
    )
    flags.DEFINE_bool("report", True, "Write report.html (needs plotly).")
    flags.DEFINE_bool(
        "progress",
        True,
        "Show a progress bar on a terminal: rate, time left, accuracy, epsilon spent "
        "(RDP). --verbosity=-2 hides it, and warnings.",
    )
    flags.DEFINE_bool(
        "tensorboard",
        False,
        "Write TensorBoard event files too, to OUTPUT_DIR/tensorboard (needs "
        "tensorboardX).",
    )
    flags.DEFINE_bool(
        "distributed",
        False,
        "Run with the other processes of a SLURM step, an Open MPI job, a Kubernetes "
        "job or a TPU pod, each started with this same command.",
    )
    flags.DEFINE_string(
        "coordinator_address",
        None,
        "HOST:PORT where process 0 listens, where no such cluster names it.",
    )
    flags.DEFINE_integer("num_processes", None, "Processes, likewise.", lower_bound=1)
    flags.DEFINE_integer(
        "process_id", None, "This process, from 0, likewise.", lower_bound=0
    )


def shows_progress(values: flags.FlagValues) -> bool:
    """Whether a terminal gets a progress bar; --verbosity below warnings is quiet."""
    return values.progress and values.verbosity >= logging.WARNING


def mechanism_help() -> str:
    """One line a mechanism, for the manual that --help prints."""
    lines = [
        f"  {name:<13}{mechanisms.mechanism_summary(name)}"
        for name in mechanisms.mechanism_names()
    ]
    return "Mechanisms:\n" + "\n".join(lines)


def start_jax(values: flags.FlagValues) -> None:
    """Sets JAX up before its first use."""
    import jax

    jax.config.update("jax_compilation_cache_dir", values.compilation_cache_dir or None)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def start_processes(values: flags.FlagValues) -> None:
    """Joins the other processes where the flags ask for it.

    Comes before the settings are resolved, since some defaults depend on the
    device, and what is wrong with one process's flags then ends the others too.
    """
    named = (values.coordinator_address, values.num_processes, values.process_id)
    if values.distributed or named != (None, None, None):
        processes.start(*named)


def placement(values: flags.FlagValues, **more: int) -> Any:
    """The `training.Placement` that the flags of `define_running` name.

    Args:
      values: the command line's.
      more: fields of the placement that only some experiments offer.
    """
    import jax

    from fedsvp_jax.engine.placement import Placement

    num_devices = values.num_devices
    if num_devices is None:
        everyone = jax.device_count() // more.get("sweep_devices", 1)
        num_devices = max(1, everyone) if processes.several() else 1
    return Placement(
        num_devices=num_devices, rounds_per_call=values.rounds_per_call, **more
    )


def run(main: Callable[[list[str]], None], manual: str | None) -> None:
    """Runs an experiment: bad input ends in one line and exit status 2.

    Args:
      main: takes the arguments that absl left over.
      manual: what --help prints above the flags.
    """
    # Orbax logs (as absl) what it raises as well, and leaves the other writes in
    # flight, which then tell that their event loop is gone.
    logging.set_verbosity(logging.WARNING)
    handler = logging.get_absl_handler().python_handler
    handler.setFormatter(_Lines())
    handler.addFilter(lambda record: record.name not in ("absl", "asyncio"))
    sys.unraisablehook = _unraisable
    warnings.showwarning = _show_warning
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stopping.stop_at_once)

    def guarded(arguments: list[str]) -> None:
        if len(arguments) > 1:
            _fail(f"unexpected argument {arguments[1]!r}; flags are --name=value")
        try:
            main(arguments)
        except (ValueError, OSError, FloatingPointError) as error:
            if logging.level_debug():
                raise
            _fail(processes.explain(error) or _one_line(error))
        except stopping.Stopped as stopped:
            _fail(str(stopped), status=128 + stopped.signal_number)
        except Exception as error:
            if not processes.started():
                raise
            explained = processes.explain(error)
            if explained is None:
                traceback.print_exc()
            _fail(explained or _one_line(error))

    def parse(arguments: list[str]) -> list[str]:
        if any(argument in ("--help", "-h", "--helpfull") for argument in arguments):
            print(_manual(arguments[0], manual))
            sys.exit(0)
        try:
            return flags.FLAGS(arguments)
        except flags.Error as error:
            _fail(_one_line(error))

    app.run(guarded, flags_parser=parse)


def _unraisable(unraisable: Any) -> None:
    """What a finaliser or a library's callback raised, and Python drops."""
    error = unraisable.exc_value
    if isinstance(error, stopping.Stopped):  # the user's signal: send it once more
        again = threading.Timer(0.1, os.kill, (os.getpid(), error.signal_number))
        again.daemon = True
        again.start()
    elif str(error) != "Event loop is closed":
        sys.__unraisablehook__(unraisable)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {_one_line(str(message))}", file=sys.stderr)


class _Lines(std_logging.Formatter):
    """A warning as the errors are told: `warning: …`, one line."""

    def format(self, record: std_logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {_one_line(record.getMessage())}"


def _manual(script: str, manual: str | None) -> str:
    """What --help prints: purpose, mechanisms, then the flags by theme."""
    values = flags.FLAGS
    defining = values.flags_by_module_dict()
    own = f"{__package__}."  # fedsvp_jax.experiments where the package is installed
    modules = sorted(
        name for name in defining if name.startswith(own) or name == script
    )
    described = "\n\n".join(values.module_help(name) for name in modules)
    return f"{manual}\n{mechanism_help()}\n\nFlags (--name=value):\n{described}"


def _one_line(error: BaseException | str) -> str:
    text = " ".join(str(error).split())
    if "output_dir must have a value" in text:
        return "flag --output_dir is required: the folder for everything written"
    return text


def shown(value: Any) -> str:
    """A number or a dictionary of numbers, short enough for a terminal."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(item)}" for name, item in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_report(values: flags.FlagValues, kind: str) -> None:
    """Builds report.html from the files and prints where everything is."""
    folder = values.output_dir
    if values.report:
        from fedsvp_jax import report

        try:
            make = {"run": report.write_run_report, "sweep": report.write_sweep_report}
            make[kind](folder)
        except ImportError as error:
            print(f"no report.html: {error}")
    print("files:")
    for name in sorted(os.listdir(folder)):
        if os.path.isfile(os.path.join(folder, name)):
            print(f"  {os.path.join(folder, name)}")


def _fail(message: str, *, status: int = 2) -> NoReturn:
    print(f"error: {message}", file=sys.stderr, flush=True)
    if processes.started():
        processes.leave(status)
    sys.exit(status)


def named_folders(items: list[str]) -> dict[str, pathlib.Path]:
    """Name -> folder of --keep's NAME=FOLDER.

    Raises:
      ValueError: an item is no such pair.
    """
    found = {}
    for item in items:
        name, _, folder = item.partition("=")
        if not name or not folder:
            raise ValueError(f"keep must be NAME=FOLDER, got {item!r}")
        found[name] = pathlib.Path(folder)
    return found
