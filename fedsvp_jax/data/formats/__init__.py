"""One reader a file format; each returns a checked `Dataset`. No pickle is loaded."""
