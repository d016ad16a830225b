"""Files of `torch.save`, written byte by byte; test_references has PyTorch's own."""

import io
import pathlib
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from fedsvp_jax.pretrained.tensor_files import read_tensors

MAGIC = 0x1950A86A20F9469CFC6C
NUMBERS = np.arange(6, dtype="<f4")


class Named:
    """Pickles as the function or class of this name."""

    def __init__(self, text: str):
        self.text = text


class Call(Named):
    """Pickles as a call of the function of this name."""

    def __init__(self, text: str, *arguments: Any):
        super().__init__(text)
        self.arguments = arguments


class Storage(Named):
    """Pickles as a reference to numbers that lie beside the pickle."""


class Pickler(pickle._Pickler):  # type: ignore[name-defined]  # the one in Python
    def save(self, value: Any, *more: Any, **named: Any) -> None:
        if isinstance(value, Storage):
            kind = Named(f"torch {value.text}")
            super().save(("storage", kind, "0", "cpu", len(NUMBERS)), *more, **named)
            self.write(pickle.BINPERSID)
        elif isinstance(value, Call):
            self.write(b"c" + value.text.replace(" ", "\n").encode() + b"\n")
            super().save(value.arguments, *more, **named)
            self.write(pickle.REDUCE)
        elif isinstance(value, Named):
            self.write(b"c" + value.text.replace(" ", "\n").encode() + b"\n")
        else:
            super().save(value, *more, **named)


def pickled(value: Any) -> bytes:
    written = io.BytesIO()
    Pickler(written, 2).dump(value)
    return written.getvalue()


def tensor(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *,
    offset: int = 0,
    kind: str = "FloatStorage",
) -> Call:
    where = (Storage(kind), offset, shape, strides, False)
    return Call(
        "torch._utils _rebuild_tensor_v2", *where, Call("collections OrderedDict")
    )


def write(path: pathlib.Path, state: Any, *, zipped: bool, data: bytes) -> None:
    if zipped:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("state/data.pkl", pickled(state))
            archive.writestr("state/data/0", data)
        return
    system = {"little_endian": True, "protocol_version": 1001, "type_sizes": {}}
    head = b"".join(pickled(part) for part in (MAGIC, 1001, system, state, ["0"]))
    path.write_bytes(head + np.int64(len(NUMBERS)).tobytes() + data)


@pytest.mark.parametrize("zipped", [True, False])
def test_both_formats_give_the_numbers(tmp_path: pathlib.Path, zipped: bool) -> None:
    state = {
        "whole": tensor((2, 3), (3, 1)),
        "turned": tensor((3, 2), (1, 3)),
        "last": tensor((2,), (1,), offset=4),
        "scalar": tensor((), (), offset=5),
        "empty": tensor((0,), (1,)),
    }
    path = tmp_path / "state.pth"
    write(path, state, zipped=zipped, data=NUMBERS.tobytes())
    found = read_tensors(path)
    square = NUMBERS.reshape(2, 3)
    expected = {
        "whole": square,
        "turned": square.T,
        "last": NUMBERS[4:],
        "scalar": NUMBERS[5],
        "empty": NUMBERS[:0],
    }
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == np.float32 and found[name].shape == value.shape


def test_half_floats_of_either_kind_are_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.pth"
    values = np.array([0.5, -2, 3, 4, 5, 6], np.float32)
    upper = (values.view(np.uint32) >> 16).astype("<u2")
    for kind, data in (
        ("BFloat16Storage", upper.tobytes()),
        ("HalfStorage", values.astype("<f2").tobytes()),
    ):
        state = {"w": tensor((6,), (1,), kind=kind)}
        write(path, state, zipped=True, data=data)
        np.testing.assert_array_equal(read_tensors(path)["w"], values)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"w": Call("os mkdir", "made")}, "asks to call 'os mkdir'"),
        ({"w": tensor((7,), (1,))}, "w lies outside of its numbers"),
        ({"w": tensor((2,), (1,), offset=-1)}, "w lies outside of its numbers"),
        ({"w": tensor((2,), (-1,), offset=3)}, "w lies outside of its numbers"),
        ({"state": {"w": tensor((2,), (1,))}}, "must hold a state dict"),
        ([1], "must hold a state dict"),
        ({"w": tensor((2,), (1,), kind="ComplexFloatStorage")}, "ComplexFloatStorage"),
    ],
)
def test_what_is_not_a_dictionary_of_tensors_is_refused(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    zipped: bool,
    state: Any,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "w.pth", state, zipped=zipped, data=NUMBERS.tobytes())
    with pytest.raises(ValueError, match=f"not a file of plain tensors: .*{message}"):
        read_tensors(tmp_path / "w.pth")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text", [b"<html>not found</html>", b"", b"\x80\x02.", b"\x80\x02K\x01."]
)
def test_other_files_are_refused(tmp_path: pathlib.Path, text: bytes) -> None:
    (tmp_path / "w.pth").write_bytes(text)
    with pytest.raises(ValueError, match=r"w\.pth is not a file of plain tensors"):
        read_tensors(tmp_path / "w.pth")


@pytest.mark.parametrize("zipped", [True, False])
def test_numbers_are_not_repeated_beyond_what_the_file_holds(
    tmp_path: pathlib.Path, zipped: bool
) -> None:
    """D8: with strides of 0, some hundred bytes asked for 32 GiB."""
    path = tmp_path / "state.pth"
    write(
        path,
        {"w": tensor((2**33,), (0,))},
        zipped=zipped,
        data=NUMBERS.tobytes(),
    )
    with pytest.raises(ValueError, match="w lies outside of its numbers"):
        read_tensors(path)


def test_numbers_must_be_finite(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.pth"
    data = np.array([1, np.nan, 3, 4, 5, 6], "<f4").tobytes()
    write(path, {"w": tensor((6,), (1,))}, zipped=True, data=data)
    with pytest.raises(ValueError, match="w holds NaN or infinity"):
        read_tensors(path)


@pytest.mark.parametrize("kind", ["zip", "old", "safetensors"])
def test_a_damaged_file_ends_in_one_sentence(tmp_path: pathlib.Path, kind: str) -> None:
    """D8: 108 of 600 damaged files ended in a traceback."""
    path = tmp_path / f"state.{'safetensors' if kind == 'safetensors' else 'pth'}"
    if kind == "safetensors":
        path.write_bytes(save({"w": NUMBERS, "b": NUMBERS[:2]}))
    else:
        state = {"w": tensor((2, 3), (3, 1)), "b": tensor((2,), (1,))}
        write(path, state, zipped=kind == "zip", data=NUMBERS.tobytes())
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(1000):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 6)):
            damaged[place] = rng.integers(256)
        if rng.random() < 0.2:
            damaged = damaged[: rng.integers(len(whole))]
        path.write_bytes(damaged)
        try:
            found = read_tensors(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            assert sum(array.size for array in found.values()) <= len(whole)
