"""What `python -m experiments.benchmark` runs: works, arithmetic, measurement."""
