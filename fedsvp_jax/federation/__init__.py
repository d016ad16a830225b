"""The way from settings and data to the program whose rounds `run.Trainer` compiles."""

from .budget import solve_noise
from .program import Program, build

__all__ = ["Program", "build", "solve_noise"]
