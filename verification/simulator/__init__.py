"""The simulator: the shipping scripts and flows without a server, a socket or a clock.

``keyspace`` is an in-memory Redis with its own clock, ``scripting`` runs Lua scripts on it,
``simulation`` puts clients, a network and faults around it, and ``explorer`` walks through every
schedule of such a world. ``scripting`` needs ``lupa`` (``pip install lupa``).

What the simulator shows and what it cannot see: docs/explanation/simulator.md.
"""
