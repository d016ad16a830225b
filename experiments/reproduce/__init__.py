"""The papers' tables and figures."""
