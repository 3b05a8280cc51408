"""This process: its clock, log, mutex, descriptors, and what a fork changes."""
