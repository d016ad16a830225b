"""Weights of a backbone as a file."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.influence import backbone
from fedsvp_jax import models
from fedsvp_jax.structs import Model

EXAMPLE = jnp.zeros((1, 8, 8, 1))


def build(num_classes: int) -> Model:
    return models.make_model("small_cnn", num_classes=num_classes)


def test_what_is_saved_is_loaded_and_damage_is_told(tmp_path: pathlib.Path):
    path = tmp_path / "backbone.safetensors"
    params, stats = build(7).init(jax.random.key(0), EXAMPLE)
    backbone.save(path, params, stats, {"num_classes": "7", "dataset": "digits"})
    again, no_stats, about = backbone.load(path, build, EXAMPLE)
    jax.tree.map(np.testing.assert_array_equal, params, again)
    assert no_stats == stats and about["dataset"] == "digits"
    with pytest.raises(ValueError, match="does not fit the model"):
        backbone.load(path, build, jnp.zeros((1, 16, 16, 1)))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="is damaged"):
        backbone.load(path, build, EXAMPLE)
    with pytest.raises(FileNotFoundError, match="does not exist or is not a file"):
        backbone.load(tmp_path / "other", build, EXAMPLE)
