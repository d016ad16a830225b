"""Measured speed: workloads, arithmetic, communication, scaling, other libraries."""
