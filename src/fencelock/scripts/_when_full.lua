-- Fragment: a statement of each script that gives up, keeps or hands over what clients have already. A
-- server without memory refuses every command that could add something, unless its script has written
-- before. This changes nothing, and counts as a write. A script that acquires does without: it is
-- refused. `KEYS[3]` is a sorted set: the line of a name, or the requests of a state.

redis.call('ZREM', KEYS[3], '')
