"""Adapters of `deploy` to engines, each an extra: NVIDIA FLARE, pfl-research."""
