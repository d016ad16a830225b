"""From settings and data to the program whose rounds `run.Trainer` compiles."""

from fedsvp_jax.federation.budget import solve_noise
from fedsvp_jax.federation.program import Program, build

__all__ = ["Program", "build", "solve_noise"]
