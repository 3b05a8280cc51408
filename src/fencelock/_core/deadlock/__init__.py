"""Deadlocks: which threads and tasks wait for which locks, and the probes that find a cycle."""
