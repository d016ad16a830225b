"""From settings and data to the program that the engine runs."""
