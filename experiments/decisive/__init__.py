"""What noise that follows R gains at equal epsilon; values and risks of records."""
