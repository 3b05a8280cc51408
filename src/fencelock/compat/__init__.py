"""Locks that other libraries know: ``redis_py`` has their names, ``redisson`` their layout."""
