"""Report pages, tables and figures, made from the files of runs and sweeps.

files -> read -> curves (what to show) -> plots (tables) -> page | figures
              -> tables
"""

from fedsvp_jax.report import figures, tables
from fedsvp_jax.report.compare_page import write_compare_report
from fedsvp_jax.report.run_page import write_run_report
from fedsvp_jax.report.sweep_page import write_sweep_report

__all__ = [
    "figures",
    "tables",
    "write_compare_report",
    "write_run_report",
    "write_sweep_report",
]
