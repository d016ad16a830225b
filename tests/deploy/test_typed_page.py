"""What docs/deploy.md says to type: from twelve hospitals' CSV files to a model."""

import csv
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest
from deployed import example
from superlink import ROOT

pytest.importorskip("flwr")

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "deploy.md").read_text()
HOSPITALS = 12


def blocks(heading: str) -> list[str]:
    """What the page says to type below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?s)```text\n(.*?)```", section)


def swapped(text: str, *pairs: tuple[str, str]) -> str:
    """The text with each first replaced by its second, which must occur."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def free_ports(number: int) -> int:
    """The first of so many ports that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    return port if port + number < 60_000 else 30_000


def test_twelve_hospitals_tables_become_a_model_that_predicts(
    tmp_path: pathlib.Path,
) -> None:
    """One round on one machine; two nodes are away, and one process answers for all."""
    example("flower_sums/deal.py").deal(tmp_path, HOSPITALS)
    install, propose, join, node, run, test = blocks("Hospitals: a checklist")
    each = f"for k in $(seq 0 {HOSPITALS - 1}); do"
    register = run.removesuffix("flwr run federation --stream\n")
    assert register != run
    bin_folder = tmp_path / "bin"  # of this environment, as the page's has them
    bin_folder.mkdir()
    for tool in pathlib.Path(sys.executable).parent.glob("fl*"):
        (bin_folder / tool.name).symlink_to(tool)
    fedsvp = f'#!/bin/sh\nexec {sys.executable} -m experiments.fedsvp "$@"\n'
    (bin_folder / "fedsvp").write_text(fedsvp)
    (bin_folder / "fedsvp").chmod(0o755)
    port = free_ports(HOSPITALS + 2)
    one = (
        f"python {ROOT / 'examples/flower_sums/one_process.py'} {port + HOSPITALS + 1}"
    )
    here = ("server.example.org", "localhost"), ("9092", str(port))
    typed = [
        "set -eu",
        swapped(
            install[install.index("export") :],
            (
                "$PWD/federated/bin",
                f"{bin_folder}:{pathlib.Path(sys.executable).parent}",
            ),
        ),
        swapped(
            propose.rstrip(),
            *here,
            ("clients=49", f"clients={HOSPITALS}"),
            ("examples=1188", "examples=440"),
            ("examples=80", "examples=40"),
            ("colluders=16", "colluders=4"),
            ("0.0.0.0", "127.0.0.1"),
        )
        + " > link.log 2>&1 &\nsleep 20",
        f"{one} one > one.log 2>&1 &",
        "until [ -x one/flwr-clientapp ]; do sleep 1; done\nexport PATH=$PWD/one:$PATH",
        f"{each} mkdir $k && cd $k",
        "cp -r ../federation ../ca.crt . && cp ../hospital-$k.csv own.csv",
        swapped(join, ("/mnt/elsewhere", "$PWD/elsewhere")),
        swapped(
            node.rstrip(),
            *here,
            ("/mnt/elsewhere", "$PWD/elsewhere"),
            ("fedsvp", "[ $k -gt 1 ] && fedsvp"),
            (" -- ", f" -- --port $(({port + 1} + k)) "),
        )
        + " > node.log 2>&1 &\ncd ..\ndone",
        swapped(
            register, *here, ("node.pub", "$k/node.pub"), ("flwr s", f"{each} flwr s")
        )
        + "done\nuntil [ $(grep -l 'SuperNode ID' */node.log | wc -l) = 10 ]; do\n"
        "sleep 1; done",
        "flwr run federation --stream --run-config rounds=1",
        "cd 5 && cp ../federation/model.safetensors ../new.csv .",
        test,
    ]
    with (tmp_path / "typed.log").open("w+") as log:
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(typed)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(1200)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
        log.seek(0)
        told = log.read()
    assert status == 0, told
    assert told.count("Secure aggregation completed") == 1
    # 12 - 4 + 1 at least: a round takes the nodes that a busy machine has started.
    assert re.search("strategy sampled (9|10) clients", told), told
    officers = (tmp_path / "5" / "protection.html").read_text()
    assert "How one row of the site north is protected" in officers
    (agreement,) = re.findall(r"<code>([0-9a-f ]{71})<", officers)
    assert told.count(f"agreement: {agreement}\n") == HOSPITALS + 1
    assert "AUC" in told and "verdict: in order" in told
    with (tmp_path / "5" / "predicted.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 69
    assert {row["predicted"] for row in rows} <= {"benign", "malignant"}
