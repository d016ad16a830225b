"""Real data sets, their division among clients, attributes and cohorts."""
