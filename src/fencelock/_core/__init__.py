"""The logic of fencelock: every operation once, as an ``async def`` flow over a port.

Rules of this folder (a test enforces 1 and 4):

1. No module here imports asyncio, threading, time, random, socket, os or redis. Everything a flow
   may ask of the world is a method of ``wire.Wire``.
2. Every decision is a pure function that takes ``now``. Flows only put port calls in order.
3. ``now`` is read before asking; a deadline never comes from the time of an answer (I2).
4. No async generators, no gather. Shared tables are touched under ``port.mutex``, and nothing
   is awaited inside it.
5. A request whose answer did not come may have run. It is asked again (every script is idempotent
   per id) or undone through ``port.run_in_background`` (I4).
6. A flow ends what it began on every way out: return, error, timeout and cancellation (I9). Ctrl-C
   may come between any two bytecodes: the code that has a request, a connection or a hold at that
   moment undoes, drops or returns it.
"""
