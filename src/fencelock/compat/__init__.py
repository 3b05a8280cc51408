"""Locks of ours with the names of other libraries: ``redis_py``."""
