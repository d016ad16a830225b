"""The finished run that is made once for all tests."""

from small_folders import whole_run  # noqa: F401
