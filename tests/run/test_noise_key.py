"""Noise from the system's entropy: other noise in each run, the same after a resume."""

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from fedsvp_jax import federation, run
from fedsvp_jax.accounting import Account, claims
from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.federation import federated_data
from fedsvp_jax.mechanisms import noise_check
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


def two_uploads(account: Account) -> NoiseInfo:
    info, *_ = noise_check.extreme_uploads(account.mechanism, 4, 50).values()
    return jax.tree.map(lambda leaf: np.full(2, leaf), info)


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
def test_a_run_whose_key_is_gone_or_cut_is_not_resumed(tmp_path: Path) -> None:
    config, folder = settings(secret_noise=True), tmp_path / "run"
    run.train(config, folder)
    for key in (b"", b"four", None):
        (folder / noise_key.FILE).unlink()
        if key is not None:
            (folder / noise_key.FILE).write_bytes(key)
        with pytest.raises(ValueError, match="key of its noise, is gone or damaged"):
            run.train(config, folder, options=Options(resume=True))


@pytest.mark.hole
def test_cohorts_that_follow_a_seed_amplify_nothing() -> None:
    """Their row, "kept secret", was proved beside noise that nobody knows."""
    for secret in (False, True):
        config = settings(secret_noise=secret, weighting="uniform")
        data = federated_data.load_data(config)
        key = noise_key.fresh() if secret else None
        (account,) = federation.build([config], data, noise_key=key).accounts
        for _ in range(4):
            account = account.record([0, 1], two_uploads(account), [0.5, 0.5])
        methods = [row.method for row in claims.table(account, ("rdp",))]
        assert ("rdp, sampled without replacement" in methods) != secret


@pytest.mark.hole
def test_another_key_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    """It redrew the noise of rounds, and of the published score, without a word."""
    config, folder = settings(secret_noise=True), tmp_path / "run"
    run.train(config, folder)
    before = (folder / noise_key.FILE).read_bytes()
    (folder / noise_key.FILE).write_bytes(noise_key.fresh())
    with pytest.raises(ValueError, match=r"cannot resume .* noise_key is"):
        run.train(config, folder, options=Options(resume=True))
    (folder / noise_key.FILE).write_bytes(before)
    run.train(config, folder, options=Options(resume=True))


@pytest.mark.hole
def test_a_run_that_another_process_began_in_between_keeps_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key was read before the folder was locked, and then written over its own."""
    config, folder = settings(secret_noise=True), tmp_path / "run"
    build, others = federation.build, []

    def late(*args: Any, **kwargs: Any) -> federation.Program:
        monkeypatch.setattr(federation, "build", build)
        run.train(config, folder)
        others.append((folder / noise_key.FILE).read_bytes())
        return build(*args, **kwargs)

    monkeypatch.setattr(federation, "build", late)
    with pytest.raises(ValueError, match=r"cannot resume .* noise_key is"):
        run.train(config, folder, options=Options(resume=True))
    assert others == [(folder / noise_key.FILE).read_bytes()]


@pytest.mark.hole
def test_runs_of_one_key_and_two_seeds_share_no_noise() -> None:
    """Of a copied key: both streams of noise were the same, under other cohorts."""
    key, data = noise_key.fresh(), federated_data.load_data(settings())
    roots = [
        federation.build(
            [settings(secret_noise=True, seed=seed)], data, noise_key=key
        ).cells.root.secret
        for seed in (0, 1)
    ]
    first, second = (jax.random.key_data(root).tolist() for root in roots)
    assert first != second


def test_a_run_that_was_killed_before_its_config_goes_on(tmp_path: Path) -> None:
    config, folder, key = settings(secret_noise=True), tmp_path / "run", b"8 bytes!"
    folder.mkdir()
    (folder / noise_key.FILE).write_bytes(key)
    run.train(config, folder)
    assert (folder / noise_key.FILE).read_bytes() == key


def test_who_keeps_no_key_is_refused() -> None:
    config = settings(secret_noise=True)
    with pytest.raises(ValueError, match="secret_noise is for one run"):
        federation.build([config], federated_data.load_data(config))
