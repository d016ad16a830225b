"""The folder's files: whole or not there, plain JSON, nothing overwritten."""

import json
import os
import pathlib
import platform
import subprocess
import sys
import zlib
from typing import Any

import jax
import numpy as np
import pytest
from commands import start

from fedsvp_jax.core import prng
from fedsvp_jax.core.files import WriteError, plain, write_json
from fedsvp_jax.devices import cpu
from fedsvp_jax.run import environment
from fedsvp_jax.run.folder import RunFolder, identity

ROOT = pathlib.Path(__file__).parents[2]


def test_numpy_becomes_plain_python_and_non_finite_becomes_null() -> None:
    """A float32 by its shortest form, which reads back the same."""
    for value in np.random.default_rng(0).normal(size=200).astype(np.float32):
        assert np.float32(plain(value)) == value
    assert json.dumps(plain(np.float32(0.1))) == "0.1"
    array = np.asarray([[1.0, np.nan]], np.float32)
    mixed = (np.float32(np.inf), float("-inf"), None, "text")
    content = {"int": np.int32(3), "on": np.bool_(True), "array": array, "tuple": mixed}
    text = json.dumps(plain(content), allow_nan=False)
    same = {"int": 3, "on": True, "array": [[1, None]], "tuple": [None] * 3 + ["text"]}
    assert json.loads(text) == same


def test_a_file_is_replaced_whole_and_leaves_nothing_beside_it(
    tmp_path: pathlib.Path,
) -> None:
    write_json(tmp_path / "a.json", {"value": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"value": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_new_folder_or_one_of_a_run_killed_in_its_first_file_is_started(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "config.json.tmp").write_text('{"se')
    for name, resume in (("deep/new", False), ("killed", True)):
        with RunFolder(tmp_path / name) as folder:
            folder.start({"seed": 0}, resume=resume)
        assert [path.name for path in folder.path.iterdir()] == ["config.json"]
        assert json.loads((folder.path / "config.json").read_text()) == {"seed": 0}


def test_a_folder_that_holds_a_run_is_refused_unless_resumed(
    tmp_path: pathlib.Path,
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.start({"seed": 0, "delta": 0.1}, resume=False)
    with pytest.raises(ValueError, match=r"already holds a run.*Options\(resume=True"):
        folder.start({"seed": 0, "delta": 0.1}, resume=False)
    folder.start({"seed": 0, "delta": np.float32(0.1)}, resume=True)


def test_resuming_another_configuration_names_the_differences(
    tmp_path: pathlib.Path,
) -> None:
    folder = RunFolder(tmp_path / "run")
    versions = {"jax": "1", "numpy": "2"}
    old = {"only_old": 1, "model": "mlp", "seed": 0, "versions": versions}
    folder.start(old, resume=False)
    new = {"model": "mlp", "seed": 1, "versions": versions | {"jax": 3}}
    with pytest.raises(ValueError, match="cannot resume") as raised:
        folder.start(new, resume=True)
    assert str(raised.value).endswith(
        "only_old is None and was 1; seed is 1 and was 0; versions.jax is 3 and was '1'"
    )
    assert json.loads((folder.path / "config.json").read_text())["seed"] == 0


@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_folder_or_file_is_refused_and_left_alone(
    resume: bool, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(ValueError, match="holds no run"):
            RunFolder(path).start({"seed": 0}, resume=resume)
    with pytest.raises(OSError, match=r"output_dir .*txt/run cannot be written"):
        RunFolder(tmp_path / "notes.txt" / "run").start({}, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def is_ours(row: dict[str, Any]) -> bool:
    return "theirs" not in row


OTHER = "has other rows than were written up to round 2; put a copy of the file back"


def keep(folder: pathlib.Path) -> None:
    """The rows of two rounds, none of which is the one that was written."""
    checksum = zlib.crc32(b'{"round": 1, "loss": 0.5}\n')
    rows = RunFolder(folder)
    rows.keep_rounds("metrics.jsonl", 2, is_ours=is_ours, checksum=checksum)


def test_rows_after_a_checkpoint_and_a_torn_last_line_are_dropped(
    tmp_path: pathlib.Path,
) -> None:
    rows = tmp_path / "metrics.jsonl"
    rows.write_bytes(b'{"round": 1}\n{"round": 2}\n{"round": 3}\n{"round": 2, "\xff')
    folder = RunFolder(tmp_path)
    kept = sum(map(zlib.crc32, (b'{"round": 1}\n', b'{"round": 2}\n')))
    folder.keep_rounds("metrics.jsonl", 2, is_ours=is_ours, checksum=kept)
    assert rows.read_text() == '{"round": 1}\n{"round": 2}\n'
    folder.keep_rounds("never_written.jsonl", 0, is_ours=is_ours)
    assert not (tmp_path / "never_written.jsonl").exists()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (b"", OTHER),
        (b'{"round": 1}\n', OTHER),
        (b'{"round": 1}\n{"rou\xff: 2}\n', "line 2, is damaged"),
        (b'{"round": 1}\n{"ruond": 2}\n', "line 2, is damaged"),
        (b'{"round": 1}\n7\n', "line 2, is damaged"),
        (b'{"round": 1}\n{"round": 2}\n', OTHER),
        pytest.param(b"[" * 100_000 + b"\n", "line 1, is damaged", id="nested"),
    ],
)
def test_rows_that_something_else_changed_are_refused_and_left_alone(
    damage: bytes, named: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(damage)
    with pytest.raises(ValueError, match=named):
        keep(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_bytes() == damage


@pytest.mark.hole
@pytest.mark.parametrize(
    ("rounds", "named"),
    [
        ("1 1 2", OTHER),
        ("1 2 1", "line 4, is damaged or out of order"),
        ("1 2 2", OTHER),
        ("2 1", "line 3, is damaged or out of order"),
        ("1 3 2", "line 4, is damaged or out of order"),
        ("1a 1b 1a 2a", OTHER),
        ("1a 2a 1b", "line 4, is damaged or out of order"),
    ],
)
def test_a_round_that_stands_twice_or_out_of_order_is_refused(
    rounds: str, named: str, tmp_path: pathlib.Path
) -> None:
    """A run went on with them, and its page showed them: the copy has another loss."""
    rows = [
        {"round": int(name[0]), "client": name[1:], "loss": loss}
        for loss, name in enumerate(rounds.split())
    ]
    written = [row for row in rows if row["loss"] < 2]
    folder = RunFolder(tmp_path)
    checksum = folder.append("metrics.jsonl", written)
    (tmp_path / "metrics.jsonl").unlink()
    folder.append("metrics.jsonl", [{"round": 9, "theirs": 1}, *rows])
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=named):
        folder.keep_rounds("metrics.jsonl", 2, is_ours=is_ours, checksum=checksum)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_a_folder_that_another_process_writes_is_refused_until_it_ends(
    tmp_path: pathlib.Path,
) -> None:
    """Two `--resume` at once wrote each round twice, and both said done."""
    program = (
        "import pathlib, sys; from fedsvp_jax.run.folder import RunFolder;"
        "folder = RunFolder(sys.argv[1]); folder.start({}, resume=True);"
        "print('started', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", program, str(tmp_path / "run")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(line, text=True, cwd=ROOT, **pipes) as other:
        assert other.stdout is not None and other.stdout.readline() == "started\n"
        for resume in (False, True):
            with pytest.raises(ValueError, match=f"written by process {other.pid} on"):
                RunFolder(tmp_path / "run").start({}, resume=resume)
        other.kill()
    with RunFolder(tmp_path / "run") as folder:  # of a killed process nothing is left
        folder.start({}, resume=True)
        with pytest.raises(ValueError, match=f"written by process {os.getpid()} on"):
            RunFolder(tmp_path / "run").start({}, resume=True)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.json"]


def test_a_file_behind_a_link_is_replaced_where_it_lies(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "kept" / "file.json")
    write_json(link, {"round": 1})
    assert link.is_symlink()
    assert json.loads((tmp_path / "kept" / "file.json").read_text()) == {"round": 1}
    assert [*tmp_path.glob("**/*.tmp")] == []


def test_a_setting_that_came_later_and_is_not_given_keeps_the_checkpoints(
    tmp_path: pathlib.Path,
) -> None:
    old = {"seed": 0, "num_rounds": 3}
    folder = RunFolder(tmp_path / "run")
    folder.start(old, resume=False)
    first = folder.identity
    folder.start(old | {"schema": None}, resume=True)
    assert json.loads((folder.path / "config.json").read_text()) == old
    assert folder.identity == first == identity(old)


def fail_once(patch: pytest.MonkeyPatch, name: str) -> None:
    real = getattr(os, name)

    def full(*arguments: Any) -> Any:
        patch.setattr(os, name, real)
        raise OSError(28, "No space left on device")

    patch.setattr(os, name, full)


def test_rows_that_cannot_be_written_leave_the_file_as_it_was(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    folder.append("metrics.jsonl", [{"round": 1}])
    fail_once(monkeypatch, "fsync")
    with pytest.raises(WriteError, match=r"No space left on device.*--resume"):
        folder.append("metrics.jsonl", [{"round": 2}])
    folder.append("metrics.jsonl", [{"round": 3}])
    assert folder.rows("metrics.jsonl") == [{"round": 1}, {"round": 3}]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_whole_file_that_cannot_be_written_leaves_the_old_one(
    step: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "a.json", {"value": 1})
    fail_once(monkeypatch, step)
    with pytest.raises(WriteError, match=r"No space left on device.*--resume"):
        write_json(tmp_path / "a.json", {"value": 2})
    assert json.loads((tmp_path / "a.json").read_text()) == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_damaged_config_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"seed": \xff')
    with pytest.raises(ValueError, match=r"config.json is damaged"):
        RunFolder(tmp_path).start({"seed": 0}, resume=True)


@pytest.mark.hole
def test_a_run_tells_its_threads_and_is_not_resumed_with_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions follow the number of threads, and so do the bits of a run."""
    monkeypatch.delenv("NPROC", raising=False)
    assert cpu.threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("NPROC", "3")
    told = environment.environment()
    assert told["cpu_threads"] == 3
    assert told["cpu_instructions"].startswith(platform.machine())
    folder = RunFolder(tmp_path / "run")
    folder.start(told, resume=False)
    folder.start(environment.environment(), resume=True)
    monkeypatch.setenv("NPROC", "4")
    with pytest.raises(ValueError, match="cpu_threads is 4 and was 3"):
        folder.start(environment.environment(), resume=True)


TOLD = """
import json, jax
from fedsvp_jax.core import prng
from fedsvp_jax.run.environment import environment
key = jax.random.key_data(prng.run_keys(3, (1, 2)).secret).tolist()
print(json.dumps([key, prng.normal(prng.root_key(3), 3).tolist(), environment()]))
"""


@pytest.mark.hole
def test_random_numbers_follow_no_setting_of_jaxs_that_a_resumed_run_may_change(
    tmp_path: pathlib.Path,
) -> None:
    """Keys name their implementation, and config.json what else decides them."""
    process = start(
        TOLD, how="-c", JAX_DEFAULT_PRNG_IMPL="rbg", JAX_THREEFRY_PARTITIONABLE="0"
    )
    key, normal, told = json.loads(process.communicate(timeout=600)[0])
    assert key == jax.random.key_data(prng.run_keys(3, (1, 2)).secret).tolist()
    assert normal == jax.random.normal(jax.random.key(3), (3,)).tolist()
    ours, folder = environment.environment(), RunFolder(tmp_path / "run")
    assert not told["jax_config"].pop("jax_threefry_partitionable")
    assert ours["jax_config"] == told["jax_config"] | {
        "jax_threefry_partitionable": True
    }
    folder.start(ours, resume=False)
    for name, other in (
        ("jax_threefry_partitionable", False),
        ("jax_random_seed_offset", 7),
        ("jax_enable_x64", True),
        ("jax_default_matmul_precision", "highest"),
    ):
        before = getattr(jax.config, name)
        jax.config.update(name, other)
        try:
            changed = environment.environment()
        finally:
            jax.config.update(name, before)
        said = f"cannot resume .*: jax_config.{name} is {other!r} and was {before!r}"
        with pytest.raises(ValueError, match=said):
            folder.start(changed, resume=True)
    folder.start(environment.environment(), resume=True)
