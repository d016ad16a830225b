"""Accuracy at a proved ε: routes, their cells and the page that shows them."""
