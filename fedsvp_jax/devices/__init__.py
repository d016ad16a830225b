"""Lanes over devices: who computes what, to the same bits."""
