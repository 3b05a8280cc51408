# Generated from aio/__init__.py by generate_blocking.py: change that, and run the script.
"""fencelock for threads: thin faces over the flows of ``_core``."""
