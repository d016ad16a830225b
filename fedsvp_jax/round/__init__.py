"""One federated round, step by step, as pure functions."""
