"""Discrete against Gaussian noise: sweeps that differ in the sampler, and the table."""

import json
import pathlib

import pytest

from experiments.utility import noise_bits
from fedsvp_jax.run import sweep


def test_the_sweeps_of_a_mechanism_differ_in_the_sampler_alone() -> None:
    for one in noise_bits.COMPARISONS:
        plain = one.config(None, "data")
        for bits in one.bits:
            config = one.config(bits, "data")
            differ = {
                name
                for name, value in vars(config).items()
                if value != getattr(plain, name)
            }
            assert config.noise_bits == bits
            assert {"noise_sampler"} <= differ <= {"noise_sampler", "noise_bits"}


def test_accuracies_and_refusals_are_kept_and_paired_by_seed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = []

    def play(config, plan, folder, **_):
        played.append(folder.name)
        if config.noise_sampler == "gaussian":
            return [{"final5_accuracy": 0.9 + 0.01 * seed} for seed in plan.seeds]
        if config.noise_bits == 10:
            raise ValueError("noise_bits must be 13 for this")
        more = 0.001 * config.noise_bits
        return [{"final5_accuracy": 0.9 + (0.01 + more) * seed} for seed in plan.seeds]

    monkeypatch.setattr(sweep, "sweep", play)
    comparison = noise_bits.Comparison("digits", "dp_fedavg", (10, 12), 2)
    monkeypatch.setattr(noise_bits, "COMPARISONS", (comparison,))
    noise_bits.measure(None, tmp_path / "b", tmp_path)
    kept = (tmp_path / "b").read_text()
    text = noise_bits.table(json.loads(kept))
    assert (
        "| digits | the sum (dp_fedavg) | Gaussian | 90.5 ± 0.7 | – | – | 2 |" in text
    )
    assert "| discrete, 10 bits | refused: needs 13 bits | – | – | – |" in text
    assert "| discrete, 12 bits | 91.1 ± 1.6 | +0.6 | -7.0 to +8.2 | 2 |" in text
    more = comparison._replace(dataset="mnist", bits=())
    monkeypatch.setattr(noise_bits, "COMPARISONS", (comparison, more))
    noise_bits.measure(None, tmp_path / "b", tmp_path)
    assert played[3:] == ["mnist-dp_fedavg-None"]  # the other rows were there


def test_another_error_than_a_coarse_grid_is_not_a_row(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_, **__):
        raise ValueError("epsilon must be > 0")

    monkeypatch.setattr(sweep, "sweep", failed)
    with pytest.raises(ValueError, match="epsilon"):
        noise_bits.measure(None, tmp_path / "b", tmp_path)
