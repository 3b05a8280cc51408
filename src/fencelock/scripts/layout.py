"""The words of a record, of an entry in a line and of a hold: their names, order and patterns.

A script names those that it reads: ``'<record: holder owned=2>'`` stands for the pattern that
captures the holder of a record whose word ``owned`` is 2. Python reads them by name, too.
"""

from __future__ import annotations

from fencelock._runtime.typed import Final

_OPTIONS = "ttl:(%d+) handoff_ttl:(%d+) {} client:(%S+) info:(.*)"
_WAITER = "waiter:(%S+) holder:(%S+) channel:(%S+)"
_LOCK, _SHARE = _OPTIONS.format("owned:(%d)"), _OPTIONS.format("permits:p(%d+)")

LAYOUT: Final = {
    "record": f"fence:(%d+) holder:(%S+) {_LOCK}",
    "entry": f"{_WAITER} {_LOCK}",
    "options": _LOCK,
    # The first line of the record of a semaphore or reader/writer lock.
    "shares": "fence:(%d+) kind:=(%l+) named:([%d,]+) limit:(%d+) taken:(%d+)",
    "hold": f"held:(%d+) fence:(%d+) {_SHARE}",
    "share_entry": f"{_WAITER} {_SHARE}",
    "share_options": _SHARE,
}


def pattern(named: str) -> str:
    """Return the Lua pattern that captures some words, in their order: of ``record: holder``, say.

    ``word=pattern`` is matched by that, and not captured; ``@word`` captures its position, too.
    """
    kind, _, names = named.partition(": ")
    wanted, parts = names.split(" "), []
    for word in LAYOUT[kind].split(" "):
        name, _, form = word.partition(":")
        asked, _, other = wanted[0].partition("=")
        if asked.removeprefix("@") == name:
            form = other or ("()" if asked != name else "") + form
            del wanted[0]
        else:
            form = form.replace("(", "").replace(")", "")
        parts.append(form)
        if not wanted:
            return "^" + " ".join(parts)
    raise LookupError(f"no {kind} has the words {names!r} in this order")


def words_of(kind: str, text: bytes) -> dict[str, bytes]:
    """Return the words of a text by their names; none if it has another form."""
    names = _names(kind)
    words = text.split(b" ", len(names) - 1 if names[-1] == "info" else -1)
    return dict(zip(names, words, strict=True)) if len(words) == len(names) else {}


def written(kind: str, **words: bytes) -> bytes:
    """Return the text that has these words; the last ones may be left out."""
    return b" ".join([words[name] for name in _names(kind)[: len(words)]])


def _names(kind: str) -> list[str]:
    return [word.partition(":")[0] for word in LAYOUT[kind].split(" ")]
