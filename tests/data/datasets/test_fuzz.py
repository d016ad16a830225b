"""Every reader of files, with files that Hypothesis damages: `make fuzz`.

What is damaged is read, or refused in one sentence: never a traceback, never longer
than 30 seconds, never more memory than 1 GiB and 20 times the file. Every reader gets
FUZZ_FILES files or more, until its share of FUZZ_SECONDS is over.
"""

import contextlib
import io
import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_files
from damage import EDITS, Reader, edited, of_check, of_file, of_store
from deployed import begun
from hypothesis import HealthCheck, given, seed, settings
from safetensors.numpy import save
from small_folders import copy, whole_run  # noqa: F401, a fixture

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import sources
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import files as table_files
from fedsvp_jax.report import read
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.folder import RunFolder
from fedsvp_jax.run.trained_model import read_tensors

from experiments import config_file  # isort: skip


SECONDS, SPARE = 30, 2**30


def of_data(name: str) -> Callable[[Path], Reader]:
    def made(folder: Path) -> Reader:
        data_dir = tiny_files.WRITERS[name](folder)
        file = folder / tiny_files.FILES[name]
        return Reader(file, lambda: sources.load(name, data_dir))

    return made


def of_state(folder: Path) -> Reader:
    site = begun(folder / "state.json")
    return Reader(site.path, site.read)


def of_checkpoint(folder: Path) -> Reader:
    like = {"x": np.arange(4.0), "y": np.zeros(2, np.float32)}
    Checkpointer(folder, "run").save(3, like)
    return Reader(folder / "3", lambda: Checkpointer(folder, "run").restore(like))


def npy_inputs(path: Path) -> np.ndarray:
    """As `experiments.predict` reads them."""
    with table_files.readable(path, "; it is not an .npy file of numbers"):
        return np.load(path, allow_pickle=False)


def of_rows(folder: Path) -> Reader:
    place = RunFolder(folder)
    rows = [{"round": n, "loss": n / 7} for n in range(1, 6)]
    checksum = place.append("metrics.jsonl", rows[:4])
    place.append("metrics.jsonl", rows[4:])
    return Reader(
        folder / "metrics.jsonl",
        lambda: place.keep_rounds(
            "metrics.jsonl", 4, is_ours=lambda row: row["round"] > 0, checksum=checksum
        ),
    )


def of_table(path: Path) -> None:
    data = sources.load("csv", path, AGED)
    assert np.isfinite(data.train_inputs).all()
    assert data.class_names is not None and "" not in data.class_names


TABLE = b"age,job,y,split\n" + b"".join(
    b"%d.5,%s,%s,%s\n" % (n, b"ab"[n % 2 :][:1], b"no" if n % 3 else b"yes", part)
    for n, part in enumerate([b"train"] * 12 + [b"test"] * 6)
)
NPY = io.BytesIO()
np.save(NPY, np.ones((3, 2), np.float32))
AGED = TableSettings(label_column="y")
RECORDED = b'{"model": "mlp", "num_rounds": 3, "epsilon": 0.5, "data_fingerprint": "0"}'
KNOWN = {*ExperimentConfig.__dataclass_fields__}
FORMATS = {"mnist": "idx images", "fashion_mnist": "idx labels", "femnist": "leaf"}
READERS: dict[str, Callable[[Path], Reader]] = {
    **{FORMATS.get(name, name): of_data(name) for name in tiny_files.FILES},
    "csv": of_file("a.csv", TABLE, of_table),
    "safetensors": of_file(
        "w.safetensors", save({"w": np.ones((2, 3), "f4")}), read_tensors
    ),
    "npy": of_file("x.npy", NPY.getvalue(), npy_inputs),
    "store.json": of_store("store.json"),
    "store inputs": of_store("inputs.bin"),
    "store clients": of_store("clients.npz"),
    "state": of_state,
    "checkpoint": of_checkpoint,
    "rows": of_rows,
    "config": of_file(
        "config.json", RECORDED, lambda path: config_file.read(path, KNOWN, [])
    ),
    "check json": of_check("flip"),
    "check toml": of_check("toml"),
}
OF_RUN = read.RUN_FILES


class Hang(BaseException):
    """No reader handles it."""


def hangs(*_: Any) -> None:
    raise Hang(f"it took longer than {SECONDS} seconds")


@contextlib.contextmanager
def bounded(memory: int) -> Iterator[None]:
    """Ends what takes too long, or asks for more than these bytes."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, hangs)
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, before[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


SHARE = float(os.environ.get("FUZZ_SECONDS", "0")) / (len(READERS) + len(OF_RUN))
MANY = int(os.environ.get("FUZZ_FILES", "10000")), SHARE


@pytest.mark.parametrize(
    ("files", "seconds"),
    [(25, 0), pytest.param(*MANY, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
@pytest.mark.parametrize("name", [*READERS, *OF_RUN])
def test_random_damage_never_raises_anything_else(
    name: str,
    files: int,
    seconds: float,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Of so many files, and more until the time is over."""
    if name in OF_RUN:
        folder = copy(request.getfixturevalue("whole_run"), tmp_path / "run")
        reader = Reader(folder / name, lambda: read.read_run(folder))
    else:
        reader = READERS[name](tmp_path)
    files = max(files, 500) if name == "csv" else files
    content, ends = reader.file.read_bytes(), time.monotonic() + seconds
    reader.read()  # whole, it is taken
    tried = first = 0

    def one(edits: list[tuple[int, int, bytes]]) -> None:
        nonlocal tried
        damaged = edited(content, edits)
        reader.file.write_bytes(damaged)
        try:
            with warnings.catch_warnings(), bounded(20 * len(damaged) + SPARE):
                warnings.simplefilter("ignore")  # a table of another encoding
                reader.read()
        except (ValueError, FileNotFoundError) as error:
            assert str(error) and "\n" not in str(error) and "\x1b" not in str(error)
            assert not any(isinstance(one, MemoryError) for one in causes(error))
        tried += 1

    while tried < files or time.monotonic() < ends:
        strict = settings(
            max_examples=min(files, 500),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        seed(first)(strict(given(EDITS)(one)))()
        first += 1
