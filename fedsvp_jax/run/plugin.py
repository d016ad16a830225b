"""--plugin=FILE.py: mechanisms from outside, in every command that trains.

The file calls `register_mechanism` when it is imported, and the settings of its
mechanisms become settings of a run. It is named on the command line alone: a
config.json records it, but starts no code of another folder.
"""

import dataclasses
import importlib.util
import pathlib
import sys

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.settings import setting

HELP = (
    "FILE.py that is imported first and registers mechanisms (register_mechanism); "
    "their settings become flags."
)
_loaded: list[str] = []
files: list[str] = []  # the same as tracebacks name them, and one that failed


def load(path: str) -> None:
    """Imports a file; what it raises is raised.

    Raises:
      ValueError: there is no such file.
    """
    file = pathlib.Path(path).expanduser()
    if file.suffix != ".py" or not file.is_file():
        raise ValueError(
            "plugin must be a file FILE.py, "
            f"{'got' if file.exists() else 'and there is no'} {path}"
        )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    files.append(str(spec.origin))
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    _loaded.append(path)


def missing(config: Record) -> str | None:
    """The file of --plugin that a config.json names, where its mechanism is unknown."""
    names = config.get("mechanisms") or [config.get("mechanism")]
    is_known = {*map(str, names)} <= {*mechanisms.mechanism_names()}
    return None if is_known else config.get("plugin")


def config_class() -> type[ExperimentConfig]:
    """All settings of a run: those of mechanisms from outside too, and the plugin."""
    classes = [mechanisms.about(name).settings for name in mechanisms.mechanism_names()]
    settings = {
        cls: None for cls in classes if cls and not issubclass(ExperimentConfig, cls)
    }
    if not settings and not _loaded:
        return ExperimentConfig
    return dataclasses.make_dataclass(
        "PluginConfig",
        [("plugin", str, setting(path, HELP)) for path in _loaded[-1:]],
        bases=(ExperimentConfig, *settings),
        frozen=True,
    )
