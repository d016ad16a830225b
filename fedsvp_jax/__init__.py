"""Differentially private federated learning guided by Shapley values, in JAX."""
