"""The folders that the pages are made from."""

from small_folders import run_dir, sweep_dir, whole_run, whole_sweep  # noqa: F401
