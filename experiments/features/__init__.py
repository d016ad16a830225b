"""Linear heads on features: what they reach without noise and with a proved ε."""
