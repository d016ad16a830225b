"""The parts of `experiments.influence`."""
