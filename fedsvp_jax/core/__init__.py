"""What every room stands on: arrays, keys, settings, files, libraries that may lack."""
