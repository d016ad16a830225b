"""Kept rows say where they come from, and pages of studies which code made them."""

import json
import pathlib
import platform
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from commands import ROOT

from experiments import provenance
from fedsvp_jax.data import sources
from fedsvp_jax.devices import cpu

STUDIES, RESULTS = ROOT / "experiments" / "studies", ROOT / "docs" / "results"
# Rows of these files were kept before commits were: nobody knows theirs.
OLDER = (
    *("attacks/acgan_*", "attacks/audit.json", "attacks/canaries.json"),
    *("attacks/gradient_inversion*", "attacks/membership.json", "decisive/*"),
    *("features/*", "guarantees/*", "influence/older.jsonl", "reproduction/*"),
    *("scaling/*", "testing/mutants.json", "utility/adult_*", "utility/femnist_*"),
    *("utility/mnist_mlp.jsonl", "utility/noise_bits.json", "results/bench.jsonl"),
    *("results/bench_pythons.jsonl", "results/lowering.json", "results/peers.jsonl"),
    *("results/number_formats.json", "results/profile_W1.json"),
)
PARTS = {
    *("command", "commit", "uncommitted", "date", "device", "versions"),
    *("xla_flags", "data", "seed"),
}
DATA_PARTS = {"name", "train", "test", "sha256"}


def whole(stamp: dict[str, Any]) -> bool:
    """All parts are there, and the code was that of a commit."""
    return (
        stamp.keys() >= PARTS
        and (stamp["data"] is None or stamp["data"].keys() >= DATA_PARTS)
        and re.fullmatch("[0-9a-f]{40}", stamp["commit"]) is not None
        and not stamp["uncommitted"]
    )


def rows(file: pathlib.Path) -> Iterator[dict[str, Any]]:
    text = file.read_text()
    yield from map(json.loads, text.splitlines() if "jsonl" in file.name else [text])


def test_every_kept_row_names_its_commit_or_is_of_a_file_that_is_older() -> None:
    files = [*STUDIES.rglob("*.json*"), *RESULTS.glob("*.json*")]
    newer = [one for one in files if not any(map(one.match, OLDER))]
    assert len(newer) > 20
    faulty = [one for one in newer for row in rows(one) if not whole(row["provenance"])]
    assert not faulty


@pytest.mark.parametrize("page", sorted(STUDIES.glob("*/README.md")), ids=str)
def test_a_studys_page_names_its_code(page: pathlib.Path) -> None:
    (code,) = re.findall(r"\*\*Code\*\*: (.*)", page.read_text())
    commit, named = re.match("commit `[0-9a-f]{7}`", code), code.split("`")[1]
    assert commit or (ROOT / named).exists()


@pytest.mark.hole
def test_a_stamp_names_the_processors_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AVX-512 with AMX and without it are different machines; both were x86_64."""
    info = SimpleNamespace(read_text=lambda: "flags\t: fma avx512f amx_bf16 sse2")
    monkeypatch.setattr(cpu, "pathlib", SimpleNamespace(Path=lambda _: info))
    machine = f"{platform.machine()} fma avx512f amx_bf16"
    assert cpu.instruction_set() == machine
    assert provenance.stamp(None, None)["device"] == f"cpu ({machine})"


def test_a_stamp_is_whole() -> None:
    data = sources.load("digits")
    stamp = provenance.stamp(data, 3)
    assert stamp["data"]["sha256"] == data.fingerprint
    assert (stamp["data"]["train"], stamp["seed"]) == (len(data.train_labels), 3)
    assert whole(stamp | {"commit": "0" * 40, "uncommitted": []})


@pytest.mark.parametrize(
    ("file", "module"),
    [
        (str(ROOT / "experiments" / "benchmark" / "__main__.py"), "benchmark"),
        (str(ROOT / "experiments" / "train.py"), "train"),
    ],
)
def test_a_spawned_process_names_its_module(
    file: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a GPU said `python -m /work/main/experiments/benchmark/__main__.py`."""
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    monkeypatch.setattr(sys, "argv", [file, "--works=W1"])
    assert provenance.command() == f"python -m experiments.{module} --works=W1"
