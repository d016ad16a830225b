"""Noise from the system's entropy: other noise in each run, the same after a resume."""

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from fedsvp_jax import federation, run
from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.federation import federated_data
from fedsvp_jax.run import noise_key
from fedsvp_jax.run.options import Options


def settings(**changes: Any) -> ResolvedConfig:
    return resolve(
        ExperimentConfig(
            model="mlp",
            mechanism="gaussian",
            clipping="update_clip",
            epsilon=8.0,
            num_clients=4,
            num_hbc_clients=0,
            cohort_size=2,
            num_rounds=4,
            eval_every=4,
            **changes,
        )
    )


def model(folder: Path) -> str:
    return json.loads((folder / "summary.json").read_text())["params_sha256"]


@pytest.mark.hole
def test_two_runs_draw_other_noise_and_a_key_that_is_kept_repeats_it(
    tmp_path: Path,
) -> None:
    config = settings(secret_noise=True)
    first, second, again = (tmp_path / name for name in ("first", "second", "again"))
    run.train(config, first)
    run.train(config, second)
    assert model(first) != model(second)
    key = first / noise_key.FILE
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    shutil.copytree(first, again)
    for name in ("metrics.jsonl", "clients.jsonl", "summary.json"):
        (again / name).unlink()
    for checkpoint in (again / "checkpoints").iterdir():
        checkpoint.unlink()
    run.train(config, again, options=Options(resume=True))
    assert model(again) == model(first)
    words = key.read_bytes()
    published = [path for path in first.rglob("*") if path.is_file() and path != key]
    assert not [path for path in published if words in path.read_bytes()]


@pytest.mark.hole
def test_a_run_whose_key_is_gone_is_not_resumed(tmp_path: Path) -> None:
    config, folder = settings(secret_noise=True), tmp_path / "run"
    run.train(config, folder)
    (folder / noise_key.FILE).unlink()
    with pytest.raises(ValueError, match="is gone, the key of its noise"):
        run.train(config, folder, options=Options(resume=True))


def test_who_keeps_no_key_is_refused() -> None:
    config = settings(secret_noise=True)
    with pytest.raises(ValueError, match="secret_noise is for one run"):
        federation.build([config], federated_data.load_data(config))
