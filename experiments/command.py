"""The command line of every experiment: its flags, its manual, how it ends.

Flags become settings here; the library never reads a flag.
"""

import dataclasses
import io
import os
import pathlib
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn

from absl import app, flags, logging

from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.core.files import AnyPath, Record, toml_beside
from fedsvp_jax.core.settings import kind
from fedsvp_jax.devices import compiler_flags, cpu
from fedsvp_jax.run import plugin, stopping
from fedsvp_jax.run.options import Options

from . import config_file, manual, messages

_TYPES = {bool: "bool", int: "integer", float: "float", str: "string"}  # absl's names
_FLAGS = toml_beside(__file__, "flags.toml")
flags.disclaim_key_flags()  # whoever calls `define` has the flags, as --help shows


def define(command: str, listed: Record = _FLAGS, **fields: Any) -> None:
    """Defines the flags that are listed for a command, by default in flags.toml."""
    for name, flag in listed[command].items():
        arguments = {"default": None} | flag | fields
        getattr(flags, f"DEFINE_{arguments.pop('type')}")(name, **arguments)


def define_settings(*, without: Collection[str] = ()) -> None:
    """One flag for each setting that is not in `without`, by theme; and --config.

    The file of --plugin is imported before, and its settings are flags too.
    """
    define("settings", module_name=config_file.__name__)
    flags.DEFINE_string("plugin", None, plugin.HELP, module_name=__name__)
    try:
        if path := config_file.early_value(sys.argv, "plugin"):
            plugin.load(path)
    except Exception as error:
        _explain(error)
    for field in dataclasses.fields(plugin.config_class()):
        if field.name in (*without, "plugin"):
            continue
        text = field.metadata["help"]
        if field.metadata["choices"]:
            text += f" One of: {', '.join(field.metadata['choices'])}."
        group = manual.group(field.name)
        getattr(flags, f"DEFINE_{_TYPES[kind(field)]}")(
            field.name, field.default, text, module_name=group
        )


def settings_from_flags(values: flags.FlagValues, **changes: Any) -> ResolvedConfig:
    """The resolved settings that the command line names."""
    return resolve(unresolved(values, **changes))


def unresolved(values: flags.FlagValues, **changes: Any) -> ExperimentConfig:
    """The settings among the flags; those that the data set decides may be None."""
    settings: Record = {
        field.name: values[field.name].value
        for field in dataclasses.fields(plugin.config_class())
        if field.name in values
    }
    return plugin.config_class()(**settings | changes)


def default_settings(values: flags.FlagValues, settings: Mapping[str, Any]) -> None:
    """Gives flags that neither the command line nor --config names another default."""
    for name, value in settings.items():
        values.set_default(name, value)


def define_output() -> None:
    """Defines the flags that say where files go."""
    define("output", module_name=__name__)
    flags.register_validator(
        "output_dir",
        lambda folder: folder is not None or getattr(flags.FLAGS, "dry_run", False),
        "state --output_dir, the folder where every file is written",
    )


def define_running() -> None:
    """Defines the flags of training: devices, checkpoints, what is shown.

    None of them changes what is computed.
    """
    define("running", module_name=__name__)


def placement(values: flags.FlagValues, **fields: int) -> Any:
    """The `Placement` that the flags of `define_running` name."""
    from fedsvp_jax.run.placement import Placement

    return Placement(
        num_devices=values.num_devices or 0,
        rounds_per_call=values.rounds_per_call,
        **fields,
    )


def options(values: flags.FlagValues) -> Options:
    """The `Options` that the flags of `define_running` name."""
    return Options(
        resume=values.resume,
        checkpoint_every=values.checkpoint_every,
        on_divergence=values.on_divergence,
        progress=values.progress and values.verbosity >= logging.WARNING,
    )


def start_jax() -> None:
    """Sets JAX up before its first use: cores as devices, and kept compiled programs.

    All of them are kept, in the user's cache: a run has many small programs, and even
    one that compiles in milliseconds is read faster. JAX's own environment variables
    (JAX_COMPILATION_CACHE_DIR, JAX_NUM_CPU_DEVICES, …) override this.
    """
    import jax

    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    settings = {
        "jax_compilation_cache_dir": os.path.join(caches, "fedsvp_jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    counted = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if not (counted or compiler_flags.jax_has_started()):  # as by a plugin's arrays
        settings["jax_num_cpu_devices"] = cpu.threads()
    for name, value in settings.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)


def run(
    main: Callable[[list[str]], None],
    purpose: str | None,
    *,
    takes_arguments: bool = False,
    described: Collection[str] | None = None,
) -> None:
    """Runs an experiment: bad input ends with `error: …` and exit status 2.

    Args:
      main: takes the command line without its flags; the first item is the script.
      purpose: what --help prints above the flags.
      takes_arguments: whether the command line may hold more than flags.
      described: the flags that --help describes; None: all.
    """
    logging.set_verbosity(logging.WARNING)
    logging.get_absl_handler().python_handler.setFormatter(messages.Lines())
    sys.unraisablehook = _unraisable
    warnings.showwarning = messages.show_warning
    if isinstance(sys.stdout, io.TextIOWrapper):  # ? for ε, where it has none
        sys.stdout.reconfigure(errors="replace")
    for number in stopping.SIGNALS:
        signal.signal(number, stopping.stop_at_once)

    def guarded(arguments: list[str]) -> None:
        if len(arguments) > 1 and not takes_arguments:
            _fail(f"unexpected argument {arguments[1]!r}; flags are --name=value")
        try:
            with messages.quiet_pipe():
                main(arguments)
        except stopping.Stopped as stopped:
            text, number = str(stopped), stopped.signal_number
            if getattr(flags.FLAGS, "dry_run", False) or "resume" not in flags.FLAGS:
                text = f"stopped by {signal.Signals(number).name}"
            _fail(text, status=128 + number, at_once=True)
        except Exception as error:
            _explain(error)

    def parse(arguments: list[str]) -> list[str]:
        if {"--help", "-h", "--helpfull"} & {*arguments}:
            with messages.quiet_pipe():
                full = "--helpfull" in arguments
                print(manual.manual(arguments[0], purpose, described, full=full))
            sys.exit(0)
        faults: list[str] = []
        try:
            rest = config_file.parse(flags.FLAGS, arguments, faults)
            if "config" in flags.FLAGS:  # of `define_settings`
                unresolved(flags.FLAGS)
        except (ValueError, OSError, flags.Error) as error:
            faults.append(messages.one_line(error))
        if faults:
            _fail(messages.one_line("; ".join(faults)))
        return rest

    app.run(guarded, flags_parser=parse)


def _unraisable(unraisable: Any) -> None:
    """Handles what a finaliser or a library's callback raised; Python drops it."""
    error = unraisable.exc_value
    if isinstance(error, stopping.Stopped):  # the user's signal: send it again
        again = threading.Timer(0.1, os.kill, (os.getpid(), error.signal_number))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def write_report(values: flags.FlagValues) -> None:
    """Writes report.html, and the page for publication beside it."""
    if values.report:
        from fedsvp_jax import report

        folder = pathlib.Path(values.output_dir)
        is_sweep = (folder / "results.jsonl").exists()
        write = report.write_sweep_report if is_sweep else report.write_run_report
        try:
            write(folder)
        except ImportError as error:
            print(f"no report.html: {error}")


def print_folder(folder: AnyPath) -> None:
    """Prints the paths of all files in a folder, whose names have endings."""
    print_files(p for p in sorted(pathlib.Path(folder).iterdir()) if p.suffix)


def print_files(paths: Iterable[AnyPath]) -> None:
    """Prints the paths of what was written, one per line."""
    print("files:")
    for path in paths:
        print(f"  {path}")


def _fail(message: str, *, status: int = 2, at_once: bool = False) -> NoReturn:
    """Prints the error and ends the process.

    Args:
      at_once: without Python's clearing up. A signal leaves a compiled call in flight,
        which reads what clearing up frees: a segmentation fault.
    """
    print(f"error: {message}", file=sys.stderr, flush=True)
    if at_once:
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


def _explain(error: Exception) -> NoReturn:
    """Ends with one sentence for bad input and what a plugin raised, else raises.

    With --verbosity=1 everything is raised.
    """
    sentence = messages.of_memory(error) or messages.of_plugin(error)
    bad_input = ValueError | OSError | FloatingPointError | SyntaxError | flags.Error
    if isinstance(error, bad_input):
        sentence = sentence or messages.one_line(error)
    if sentence is None or logging.level_debug() or "--verbosity=1" in sys.argv:
        raise error
    _fail(sentence)
