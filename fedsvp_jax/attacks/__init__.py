"""Attacks that show what an upload reveals; each defines what its adversary sees."""
