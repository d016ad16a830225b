"""One list of what is published and what stays with the experimenter."""

import dataclasses
import fnmatch
import json
import pathlib
import tomllib

import numpy as np
import pytest
from small_runs import digits, shared_rounds, small

from fedsvp_jax import report, run
from fedsvp_jax.report import style
from fedsvp_jax.run.sweep import SweepPlan

pytestmark = [pytest.mark.hole, pytest.mark.usefixtures(shared_rounds.__name__)]
EXPERIMENTER = tomllib.loads(style.asset("disclosure.toml"))["experimenter"]
PATTERNS = [name for kept in EXPERIMENTER for name in kept["files"]]


def unlisted(folder: pathlib.Path) -> set[str]:
    names = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
    return {
        name
        for name in names - {"protection.html"}  # the one page for publication
        if not any(fnmatch.fnmatch(name, p) for p in PATTERNS)
    }


def test_every_file_of_a_run_and_of_a_sweep_is_in_the_list(
    tmp_path: pathlib.Path,
) -> None:
    """report.html, logs and config.json, which has the seed, were left out."""
    config = small(num_rounds=1)
    run.train(config, tmp_path / "run")
    report.write_run_report(tmp_path / "run")
    run.sweep.sweep(config, SweepPlan(("fedsva",), (0.5,), (0,)), tmp_path / "sweep")
    report.write_sweep_report(tmp_path / "sweep")
    for folder in (tmp_path / "run", tmp_path / "sweep"):
        assert (folder / "report.html").exists() and not unlisted(folder)
    assert "seed" in json.loads((tmp_path / "run" / "config.json").read_text())


def test_a_changed_label_moves_the_worst_tenth_and_nothing_that_is_public(
    tmp_path: pathlib.Path,
) -> None:
    """Counts by class were called public; a label of the same attribute moves them."""
    config = small(mechanism="none", num_rounds=1, learning_rate=1e-30, partition="iid")
    scores = []
    labels = digits().train_labels.copy()
    labels[np.flatnonzero(labels == 1)] = 2  # neither is of the private attribute
    for name, changed in (("one", digits().train_labels), ("other", labels)):
        data = dataclasses.replace(digits(), train_labels=changed)
        scores.append(run.train(config, tmp_path / name, dataset=data))
    one, other = ({k: s[k] for k in s if k.startswith("final")} for s in scores)
    moved = {name for name in one if one[name] != other[name]}
    assert moved and all("worst_tenth" in name for name in moved)
    assert any("worst tenth" in kept["why"] for kept in EXPERIMENTER)
