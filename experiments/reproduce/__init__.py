"""The papers' tables and figures: runs their presets and writes the results page."""
