"""Constants of the scripts; those that Python uses too are imported from here.

A script names those that it uses in a line ``-- constants: NAME NAME``; the loader puts their
values in place of their names.
"""

from __future__ import annotations

from fencelock._runtime.typed import Final

# The version of the layout of the keys: their names, and the forms of what they hold. It goes up
# when a kind of object gets a form that the version before cannot read;
# docs/reference/versions.md lists what changed. From layout 3 on, such a kind is written with its
# layout, as `semaphore/3`, in the record or in the state: a client that does not know it refuses
# it, by _kinds.lua.
LAYOUT_VERSION: Final = 2

# A record outlives its lease by this much: it guards fences against a clock that is set back.
RECORD_MS: Final = 600_000

# A client may use as many fences after that of a grant without telling the server: see tenure.py.
# So a fence that the server's clock does not raise is raised by so much; and not by more, so that a
# clock that was set back catches up.
FENCE_ROOM: Final = 100

# Lines, lists of waiters and heartbeats last this long after the last arrival or heartbeat.
WAITERS_MS: Final = 60_000
# Older heartbeats are removed, and so are the ids that are remembered among them.
FORGET_US: Final = 60_000_000

# A client proves this often that its waiters live.
HEARTBEAT_US: Final = 2_000_000
# A waiter whose client missed three heartbeats is taken for dead.
LIVENESS_TIMEOUT_US: Final = 7_000_000

# The last letter of a sharded channel, and the one before it; see _channel.lua.
SHARDED_MARK: Final = "!"
NODE_MARK: Final = "#"
# Before the id of the node, with which a message on such a channel begins.
NODE_WORD: Final = "@"

# What is added to the id of a holder that has left its lease to itself: no client has such an id.
LEFT: Final = "~left"

# The record of a semaphore or reader/writer lock gets no further hold when it has so many bytes
# of them.
HOLDS_BYTES: Final = 1000
