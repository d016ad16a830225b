"""Lanes over devices, and several processes: who computes what, to the same bits."""
