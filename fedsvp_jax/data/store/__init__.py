"""Clients on disk, where the memory cannot hold all: a round reads its cohort."""
