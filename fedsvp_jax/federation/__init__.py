"""The way from settings and data to the program that `run.trainer` compiles."""

from .budget import solve_noise
from .program import Program, build

__all__ = ["Program", "build", "solve_noise"]
