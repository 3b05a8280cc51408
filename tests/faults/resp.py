"""As much of the wire protocol as a proxy needs: where a message ends, and what it is about."""

from hashlib import sha1

from fencelock import scripts

SIMPLE = b"+-:_#,("
SIZED = b"$=!"
MESSAGE_IN_RESP2 = b"*3\r\n$7\r\nmessage\r\n"  # there it looks like any answer
NAMES = {script.digest: script.name for script in scripts.ALL}


def end_of(data, at=0):
    """Return where the message that begins at ``at`` ends; -1 while it is incomplete."""
    stop = data.find(b"\r\n", at)
    if stop < 0:
        return -1
    kind, after = data[at], stop + 2
    if kind in SIMPLE:
        return after
    count = int(data[at + 1 : stop])
    if kind in SIZED:
        end = after + max(count + 2, 0)
        return end if end <= len(data) else -1
    for _ in range(count * 2 if kind in b"%|" else count):
        after = end_of(data, after)
        if after < 0:
            return -1
    return after


class Splitter:
    """Turns a stream of bytes into whole messages."""

    def __init__(self):
        self._data = bytearray()

    def feed(self, data):
        """Take bytes, return the messages that are complete now."""
        self._data += data
        messages, at = [], 0
        while at < len(self._data) and (end := end_of(self._data, at)) >= 0:
            messages.append(bytes(self._data[at:end]))
            at = end
        del self._data[:at]
        return messages


def words(message):
    """Return the bulk strings of a flat message."""
    parts, found, at = message.split(b"\r\n", 1)[1], [], 0
    while at < len(parts):
        stop = parts.index(b"\r\n", at)
        size = int(parts[at + 1 : stop])
        if parts[at : at + 1] != b"$":  # a number, as in the answer to SUBSCRIBE
            at = stop + 2
            continue
        found.append(parts[stop + 2 : stop + 2 + size])
        at = stop + 2 + size + 2
    return found


def operation(request):
    """Return the name of the script that a request runs, or the command in lower case."""
    command, *rest = words(request)
    if command == b"EVALSHA":
        return NAMES.get(rest[0], "evalsha")
    if command == b"EVAL":
        return NAMES.get(sha1(rest[0], usedforsecurity=False).hexdigest().encode(), "eval")
    return command.decode().lower()


def news(message):
    """Return what a push tells (granted, revoked); None for an answer, SUBSCRIBE's included."""
    if not message.startswith((b">", MESSAGE_IN_RESP2)):
        return None
    kind, *rest = words(message)
    return rest[-1].split(b" ")[0].decode() if kind == b"message" else None
