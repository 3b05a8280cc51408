"""The part of the handles that threads and asyncio share: state and calls, over any port.

Each face (``blocking``, ``aio``) adds the public signatures, and runs or awaits the calls.
"""
