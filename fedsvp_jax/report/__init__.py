"""Report pages, tables and figures, made from the files of runs and sweeps.

files -> read -> curves (what to show) -> plots (tables) -> page | figures
              -> tables
"""

from . import figures, tables
from .reports import write_compare_report, write_run_report, write_sweep_report

__all__ = [
    "figures",
    "tables",
    "write_compare_report",
    "write_run_report",
    "write_sweep_report",
]
