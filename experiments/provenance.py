"""Where a kept row comes from: one schema for the rows of every experiment.

    command      the words after `python -m`
    commit       of the code, 40 hexadecimal digits
    uncommitted  files of the code that differed from that commit
    date         UTC, when the row was done
    device       JAX's kind of device, and the processor's architecture and instructions
    versions     of Python and of the packages that compute
    xla_flags    the compiler's, those that may change numbers
    data         the data set: name, train, test (examples), sha256 (of its content);
                 null where nothing is read
    seed         of the row; null where nothing is drawn

A row has them under "provenance". Rows that were made before commits were kept have
none: nobody knows their commits, and none is invented.
"""

import datetime
import pathlib
import re
import shlex
import subprocess
import sys
from typing import Any

from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.devices import cpu
from fedsvp_jax.run import environment

ROOT = pathlib.Path(__file__).parents[1]
CODE = ("fedsvp_jax", "experiments", "requirements", "pyproject.toml")


def _git(*words: str) -> str | None:
    """The output of git; None outside a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.rstrip("\n")


def command() -> str:
    """This process's command, as a user would type it; folders by their last name.

    A process that another one spawned knows its module by the file.
    """
    main, file = sys.modules["__main__"].__spec__, sys.argv[0].removeprefix(f"{ROOT}/")
    name = main.name if main else file.removesuffix(".py").replace("/", ".")
    name = name.removesuffix(".__main__")
    words = [re.sub(r"(?<==)/.*/", "", word) for word in sys.argv[1:]]
    return shlex.join(["python", "-m", name, *words])


def stamp(data: Dataset | None, seed: int | None) -> dict[str, Any]:
    """The entry "provenance" of a row that is done now.

    Outside a git repository `commit` is null.
    """
    now = environment.environment()
    changed = _git("status", "--porcelain", "--", *CODE) or ""
    return {
        "command": command(),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted": [line[3:] for line in changed.splitlines()],
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": f"{now['device_kind']} ({cpu.instruction_set()})",
        "versions": now["versions"],
        "xla_flags": now["xla_flags"],
        "data": data
        and {
            "name": data.name,
            "train": len(data.train_labels),
            "test": len(data.test_labels),
            "sha256": data.fingerprint,
        },
        "seed": seed,
    }
