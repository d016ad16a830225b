"""Shapley values around the core: `gp`'s process over coalitions, values of clients.

Loaded when `--shapley` or `--client_values` asks for them.
"""
