"""The base of every room: arrays, keys, settings, files, libraries that may lack."""
