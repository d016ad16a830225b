"""The compiled rounds: built once, advanced call by call."""
