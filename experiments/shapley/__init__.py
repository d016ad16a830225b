"""How near estimators of Shapley values come to the exact ones, and at what price."""
