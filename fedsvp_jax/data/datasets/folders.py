"""The folder with the files of a published data set."""

from collections.abc import Sequence
from pathlib import Path


def find_folder(
    data_dir: Path, subfolders: Sequence[str], marker: str, *, data_set: str
) -> Path:
    """The folder that holds the file `marker`: `data_dir` or one of `subfolders`.

    Args:
      data_dir: the folder itself or its parent, as the user named it.
      subfolders: the names under which the data set is usually unpacked.
      marker: a file or folder that every copy of the data set has; the file may also
        have the ending `.gz`.
      data_set: its name, for the error message.

    Raises:
      FileNotFoundError: `data_dir` is not a folder, or no folder holds `marker`.
    """
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"data_dir {data_dir} is not a folder; {data_set} expects one that holds "
            f"{marker}"
        )
    for folder in (data_dir, *(data_dir / name for name in subfolders)):
        if (folder / marker).exists() or (folder / f"{marker}.gz").exists():
            return folder
    places = " or ".join(f"{name}/{marker}" for name in subfolders)
    raise FileNotFoundError(
        f"data_dir {data_dir} holds neither {marker} nor {places}; {data_set} needs it"
    )
