"""What docs/deploy.md says to type: from twelve hospitals' CSV files to a model."""

import csv
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from superlink import ROOT

pytest.importorskip("flwr")

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "deploy.md").read_text()


def blocks(heading: str) -> list[str]:
    """What the page says to type below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?s)```text\n(.*?)```", section)


def test_twelve_hospitals_tables_become_a_model_that_predicts(
    tmp_path: pathlib.Path,
) -> None:
    """One round; the environment is this one, and the server is in the background."""
    install, keys, _, server, nodes, run = blocks("With Flower, on one machine")
    (hospitals,) = blocks("Sums that nobody sees the parts of")
    config = run.partition("flwr run")[0]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    python = pathlib.Path(sys.executable)
    exports = install[install.index("export") :]
    typed = [
        "set -eu",
        exports.replace("$PWD/federation/bin", str(python.parent)),
        keys,
        server.rstrip() + " > link.log 2>&1 &\nsleep 20",
        nodes.replace("nodes 0 2", "# nodes"),
        config,
        hospitals.replace("kill $clients; ", "")
        .replace("../../federation/bin/python", str(python))
        .replace('--run-config "', '--run-config "num-server-rounds=1 '),
    ]
    with (tmp_path / "typed.log").open("w+") as log:
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(typed)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
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
    predicted = tmp_path / "federation" / "hospitals" / "predictions.csv"
    with predicted.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 69
    assert {row["predicted"] for row in rows} <= {"benign", "malignant"}
