"""Reads with fedsvp_jax's reader what `torch.save` writes, harmless or not.

Run by tests/pretrained/test_references.py under .venv-references, in the repository's
root: PyTorch is there, JAX is not, so the reader is run as a file.
"""

import os
import runpy
import sys
from pathlib import Path

import numpy as np
import torch

read_tensors = runpy.run_path("fedsvp_jax/pretrained/torch_file.py")["read_torch_file"]


class Harmful:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.folder),)


def refusal(path: Path) -> str:
    """What the reader says instead of reading."""
    try:
        read_tensors(path)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{path} was read")


def main(folder: Path) -> None:
    """Both formats give the same numbers; anything but named tensors is refused."""
    state = {
        "weight": torch.randn(2, 3),
        "half": torch.tensor([0.5, -2.0], dtype=torch.bfloat16),
        "num_batches_tracked": torch.tensor(7),
    }
    for zipped in (True, False):
        path = folder / f"state_{zipped}.pth"
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        read = read_tensors(path)
        assert list(read) == list(state)
        for name, tensor in state.items():
            assert read[name].dtype == np.float32
            np.testing.assert_array_equal(read[name], tensor.float().numpy())

        made = folder / "made"
        path = folder / f"harmful_{zipped}.pth"
        torch.save(
            {"weight": Harmful(made)}, path, _use_new_zipfile_serialization=zipped
        )
        assert "is not a file of plain tensors" in refusal(path)
        assert not made.exists()

    path = folder / "nested.pth"
    torch.save({"state": state}, path)
    assert "must hold a state dict" in refusal(path)
    path.write_bytes(b"<html>not found</html>")
    assert "is not a file of plain tensors" in refusal(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
