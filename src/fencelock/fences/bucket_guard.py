"""A fence guard for objects in an S3-compatible store, over a client of boto3.

Rules of this file:

- The only condition that these stores offer is the ETag of one object, and they compute it from the
  content. Content can come again, and its ETag with it: a fence beside the content, such as in the
  metadata, would not be guarded. So a key stores a *pointer*: a small text that has the fence, and
  names the object with the data. Each put writes its data under a fresh name, so that no two
  pointers are alike.
- The pointer is replaced only if it is still the one that was read and compared (``If-Match``), or
  written only if there is none (``If-None-Match``).
- A store that ignores these conditions would protect nothing, so the first put tests it before.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final, NamedTuple

from fencelock.errors import ServerUnsuitable, Stale
from fencelock.fences.token import Fenced, FencingToken, refuse_older, tokens_of

# What a store answers when the condition of a write does not hold; 409: another write of the same
# key was under way.
_REFUSED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_MISSING: Final = frozenset({"NoSuchKey", "NotFound", "404"})
_KIND: Final = "fencelock pointer"
_POINTER_BYTES_MAX: Final = 16_384
# After so many misses the store has lost the data, or very many writers replaced it.
_READS_MAX: Final = 100


class _Pointer(NamedTuple):
    """What a key stores: the lock and fence of its last writer, and where the data is."""

    name: str
    fence: int
    data: str
    etag: str


class BucketFenceGuard:
    """Refuse the writes of older holders in a bucket of an S3-compatible store, for threads.

    Use its ``get`` and ``put`` instead of the client's: a key stores only a pointer to the data,
    so all programs that read or write that key need the guard.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        """Name the bucket; nothing is sent. ``client`` is ``boto3.client("s3")``.

        Raises:
            TypeError: another kind of client, or a bucket that is no text.
        """
        if not all(callable(getattr(client, name, None)) for name in ("put_object", "get_object")):
            raise TypeError(f"client must be boto3.client('s3'), not {client!r}")
        if not isinstance(bucket, str):
            raise TypeError(f"bucket must be str, not {type(bucket).__name__}")
        self.bucket: str = bucket
        self._client = client
        self._conditional = False

    def put(self, key: str, body: Any, lease: Fenced, **options: Any) -> None:
        """Store ``body`` under ``key``, unless a holder with a greater fence has stored there.

        ``options`` go to ``put_object`` for the data, such as ``ContentType``. The data that it
        replaces is deleted. A put that fails half-way leaves the old data in place.

        Raises:
            Stale: a holder with a greater fence has written; nothing was replaced.
            LeaseLost, NotHeld: the lease cannot be proved any more; nothing was sent.
            TypeError, ValueError: no lease of one lock with a fencing token; or the key stores no
                pointer, or one of another lock.
            ServerUnsuitable: the store ignores conditions of writes.
            Exception: the client's own errors. Then the data may have been stored.
        """
        token = _one(tokens_of(lease))
        self._refuse_unconditional(key)
        before = self._read(key, token)
        data = f"{key}.data/{token.fence:020d}-{uuid.uuid4().hex}"
        self._client.put_object(Bucket=self.bucket, Key=data, Body=body, **options)
        try:
            before = self._replace(key, token, data, before)
        except BaseException as error:
            if _surely_unused(error):
                self._delete(data)
            raise
        if before is not None:
            self._delete(before.data)

    def get(self, key: str) -> bytes:
        """Return the data that is stored under ``key``.

        Raises:
            KeyError: nothing is stored there.
            ValueError: the key stores no pointer.
            Exception: the client's own errors.
        """
        for _ in range(_READS_MAX):
            pointer = self._read(key, None)
            if pointer is None:
                raise KeyError(key)
            found = self._fetch(pointer.data)  # a newer put may have deleted it by now
            if found is not None:
                return found[0]
        raise KeyError(f"the data of {key!r} is missing")

    def fence(self, key: str) -> int:
        """Return the fence of the last put of ``key``; 0 without one. Raises as ``get``."""
        pointer = self._read(key, None)
        return 0 if pointer is None else pointer.fence

    def _replace(
        self, key: str, token: FencingToken, data: str, before: _Pointer | None
    ) -> _Pointer | None:
        """Write the pointer; return the one that it has replaced."""
        text = json.dumps({"kind": _KIND, "lock": token.name, "fence": token.fence, "data": data})
        while not self._write(key, text, before.etag if before else None):
            now = self._read(key, token)
            if now is not None and now.data == data:
                return before  # the client has repeated a write whose answer was lost
            before = now
        return before

    def _read(self, key: str, token: FencingToken | None) -> _Pointer | None:
        """Return the pointer of a key, if there is one and it is not too new for the token."""
        found = self._fetch(key)
        if found is None:
            return None
        pointer = _parsed(key, *found)
        if token is not None:
            if pointer.name != token.name:
                raise ValueError(
                    f"the key {key!r} is guarded by the lock {pointer.name!r}, not {token.name!r}"
                )
            refuse_older(token, pointer.fence)
        return pointer

    def _write(self, key: str, text: str, etag: str | None) -> bool:
        """Write a key on the condition that it has that ETag, or that there is none."""
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            self._client.put_object(Bucket=self.bucket, Key=key, Body=text.encode(), **condition)
        except Exception as error:
            if _code(error) in _REFUSED or (etag is not None and _code(error) in _MISSING):
                return False
            raise
        return True

    def _fetch(self, key: str) -> tuple[bytes, str] | None:
        """Return what a key stores, and its ETag; None where nothing is stored."""
        try:
            found = self._client.get_object(Bucket=self.bucket, Key=key)
        except Exception as error:
            if _code(error) in _MISSING:
                return None
            raise
        with found["Body"] as body:
            return body.read(), found["ETag"]

    def _delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self.bucket, Key=key)

    def _refuse_unconditional(self, key: str) -> None:
        """Write a probe, and try to overwrite it on conditions that do not hold; once."""
        if self._conditional:
            return
        probe = f"{key}.probe/{uuid.uuid4().hex}"
        self._client.put_object(Bucket=self.bucket, Key=probe, Body=b"probe")
        try:
            passed = self._write(probe, "again", None) or self._write(probe, "again", '"0"')
        finally:
            self._delete(probe)
        if passed:
            raise ServerUnsuitable(
                "the store ignores If-Match or If-None-Match of PutObject: it can refuse no write"
            )
        self._conditional = True

    def __repr__(self) -> str:
        """Show the bucket."""
        return f"<fencelock.fences.BucketFenceGuard bucket={self.bucket!r}>"


def _one(tokens: list[FencingToken]) -> FencingToken:
    if len(tokens) != 1:
        raise ValueError("lease must be of one lock: a key is guarded by one")
    return tokens[0]


def _surely_unused(error: BaseException) -> bool:
    """Return True if no pointer can name the data: the store or the comparison has refused it."""
    return isinstance(error, (Stale, ValueError))


def _code(error: Exception) -> str:
    """Return the code of a client's error, as botocore keeps it."""
    response = getattr(error, "response", None)
    return str(response["Error"]["Code"]) if response else ""


def _parsed(key: str, text: bytes, etag: str) -> _Pointer:
    try:
        pointer = json.loads(text) if len(text) <= _POINTER_BYTES_MAX else None
    except ValueError:
        pointer = None
    if not (isinstance(pointer, dict) and pointer.get("kind") == _KIND):
        raise ValueError(f"the key {key!r} stores no pointer: it was written without the guard")
    return _Pointer(pointer["lock"], pointer["fence"], pointer["data"], etag)
