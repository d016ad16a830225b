"""What docs/results/one_attribute.md registers: federations, arms, seeds, worth.

The arms' settings and the runs are code of the commit that the page names.
"""

SEEDS = tuple(range(12))
WORTH = 0.5  # points of accuracy: the smallest gain that is worth a weaker promise
LEAST_ROOM = 2.0  # points of FedAvg above "left out"; below it the experiment is void
CLIENTS = (20, 100, 400)  # the fewer, the more private records a client has
ARMS = ("attribute records", "all records", "left out", "FedAvg")
