"""Lua scripts on an in-memory keyspace, through lupa: the very files that ship.

Rules of this file:

- Replies and arguments are converted as Redis converts them: numbers lose their fraction, false and
  nil are None, a table ends at its first nil, strings are bytes.
- One Lua runtime serves the process; each source is compiled once. Scripts cannot keep state there:
  as in Redis, making or reading an undeclared global is an error.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from verification.simulator.commands import Keyspace
from verification.simulator.keyspace import CommandError, Status

# Builds the sandbox and returns a function that compiles, and one that runs.
PRELUDE = b"""
local call, pcall_ = ...
redis = {call = call, pcall = pcall_,
  error_reply = function(text) return {err = text} end,
  status_reply = function(text) return {ok = text} end}
KEYS, ARGV = false, false
for _, name in ipairs{'io', 'os', 'package', 'require', 'module', 'print', 'dofile',
                      'loadfile', 'python', 'newproxy', 'jit'} do _G[name] = nil end
local compile, set = loadstring, rawset
setmetatable(_G, {
  __newindex = function(_, name)
    error('Attempt to modify a readonly table: ' .. tostring(name))
  end,
  __index = function(_, name)
    error('Script attempted to access nonexistent global variable: ' .. tostring(name))
  end})
return function(source, name) return assert(compile(source, name)) end,
  function(script, keys, argv)
    set(_G, 'KEYS', keys)
    set(_G, 'ARGV', argv)
    return script()
  end,
  function(check) redis.acl_check_cmd = check end
"""


class _Lua:
    """The runtime of this process, and the keyspace that ``redis.call`` means at the moment."""

    def __init__(self) -> None:
        from lupa import lua51  # noqa: PLC0415 - of what says which tests run daily, no script runs

        self.space = Keyspace()
        self._runtime: Any = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
        )
        prelude = self._runtime.compile(PRELUDE)
        self._compile, self._run, self.ask_rights = prelude(self._call, self._pcall)

    @functools.cache  # noqa: B019 - the one runtime lives as long as the process
    def compiled(self, source: bytes, name: bytes) -> Any:
        """Return a script as a Lua function."""
        return self._compile(source, name)

    def run(self, script: Any, keys: Sequence[bytes], args: Sequence[bytes]) -> Any:
        """Run a compiled script and return what it returned, unconverted."""
        table = self._runtime.table_from
        return self._run(script, table(keys), table(args))

    def _call(self, *args: Any) -> Any:
        return self._to_lua(self.space.command(*map(argument, args)))

    def _pcall(self, *args: Any) -> Any:
        try:
            return self._call(*args)
        except CommandError as error:
            return self._runtime.table_from({b"err": str(error).encode()})

    def _to_lua(self, reply: Any) -> Any:
        if reply is None:
            return False
        if isinstance(reply, Status):
            return self._runtime.table_from({b"ok": bytes(reply)})
        if isinstance(reply, list):
            return self._runtime.table_from([self._to_lua(each) for each in reply])
        return reply


@functools.cache
def _lua() -> _Lua:
    return _Lua()


@contextlib.contextmanager
def rights(may: Callable[..., bool]) -> Iterator[None]:
    """Answer scripts that ask what their user may do, as servers since Redis 7.0 can."""
    _lua().ask_rights(may)
    try:
        yield
    finally:
        _lua().ask_rights(None)


def argument(value: Any) -> bytes:
    """Convert an argument of ``redis.call``; CommandError for what Redis refuses too."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CommandError("ERR Lua redis lib command arguments must be strings or integers")
    return b"%d" % value if value == int(value) else b"%.17g" % value


def reply_of(value: Any) -> Any:
    """Convert what a script returned; CommandError when it is an error reply."""
    if value is None or value is False:
        return None
    if isinstance(value, (int, float)):
        return int(value)
    if isinstance(value, bytes):
        return value
    return _table(value)


def _table(table: Any) -> Any:
    error, status = table[b"err"], table[b"ok"]
    if isinstance(error, bytes):
        raise CommandError(error.decode())
    if isinstance(status, bytes):
        return Status(status)
    reply: list[Any] = []
    while (item := table[len(reply) + 1]) is not None:
        reply.append(reply_of(item))
    return reply


class Program:
    """One Lua script, compiled for the simulator; ``source`` is what EVAL would be given."""

    def __init__(self, source: bytes, name: str = "user_script") -> None:
        self.source = source
        self.name = name
        self._compiled: Callable[[], Any] = _lua().compiled(source, b"@" + name.encode())

    def run(
        self, space: Keyspace, keys: Sequence[bytes] = (), args: Sequence[bytes | int] = ()
    ) -> Any:
        """Run on a keyspace; time stands still meanwhile, as on a server.

        Raises:
            CommandError: the script returned an error reply, or a command in it failed.
            lupa.LuaError: the script itself is wrong.
        """
        lua = _lua()
        lua.space = space
        words = [arg if isinstance(arg, bytes) else b"%d" % arg for arg in args]
        return reply_of(lua.run(self._compiled, keys, words))
