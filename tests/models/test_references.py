"""Features by another library's pretrained network, as a file that a run takes.

The other side runs in .venv-references (`make test-references` builds it).
"""

import pathlib
import subprocess

import numpy as np
import pytest

from fedsvp_jax.data import sources
from fedsvp_jax.data.source_settings import TableSettings

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = ROOT / ".venv-references" / "bin" / "python"


def test_the_example_makes_each_image_its_own_features(tmp_path: pathlib.Path) -> None:
    assert PYTHON.exists(), "make test-references builds the other libraries' place"
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 32, 32, 3)).astype(np.uint8)
    labels = np.arange(40) % 2
    found = []
    for name, part in (("all", images), ("last", images[-3:])):
        source, target = (tmp_path / f"{name}_{kind}.npz" for kind in ("in", "out"))
        test = {"x_test": part[:1], "y_test": labels[:1]}
        np.savez(source, x_train=part, y_train=labels[: len(part)], **test)
        command = [PYTHON, ROOT / "examples" / "features.py", source, target]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(sources.load("npz", target, TableSettings(classes=2)))
    everything, last = found
    assert everything.example_shape == (1280,) and not everything.from_records
    np.testing.assert_array_equal(everything.train_labels, labels)
    close = {"rtol": 0, "atol": 1e-4}
    np.testing.assert_allclose(last.train_inputs, everything.train_inputs[-3:], **close)
    np.testing.assert_allclose(last.train_inputs.mean(1), 0, **close)
    assert 0.5 < last.train_inputs.std() < 1.5
