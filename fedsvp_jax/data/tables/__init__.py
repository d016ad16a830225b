"""Files of one's own: a table by its schema, and arrays. No pickle is loaded."""
