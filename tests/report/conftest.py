"""The folders that the pages are made from."""

from made_folders import run_dir, run_maker, sweep_dir, upload  # noqa: F401
