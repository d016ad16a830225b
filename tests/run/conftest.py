"""The finished run that is made once for all tests, and rounds compiled once a file."""

from small_folders import whole_run  # noqa: F401
from small_runs import shared_rounds  # noqa: F401
