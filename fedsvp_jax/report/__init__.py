"""Report pages and tables, made from the files of runs and sweeps.

files -> read -> curves (what to show) -> plots (tables) -> page
              -> tables
"""

from . import tables
from .reports import (
    write_coefficients,
    write_compare_report,
    write_run_report,
    write_sweep_report,
)

__all__ = [
    "tables",
    "write_coefficients",
    "write_compare_report",
    "write_run_report",
    "write_sweep_report",
]
