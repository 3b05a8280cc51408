"""The fence guard for objects: in memory by day, and against moto's server, S3 over HTTP."""

import hashlib
import io
import uuid

import pytest

import fencelock
from fencelock.fences import BucketFenceGuard, FencingToken, Stale

OLD, NEW = FencingToken("report", 33), FencingToken("report", 34)


class RefusedError(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.response = {"Error": {"Code": code}}


class Memory:
    """As much of S3 as the guard uses: equal content has an equal ETag."""

    def __init__(self):
        self.kept = {}

    def _etag(self, key):
        return f'"{hashlib.sha1(self.kept[key]).hexdigest()}"' if key in self.kept else None

    def put_object(self, *, Key, Body, IfMatch=None, IfNoneMatch=None, **_):  # noqa: N803 - names of S3
        etag = self._etag(Key)
        if (IfNoneMatch and etag) or (IfMatch and IfMatch != etag):
            raise RefusedError("PreconditionFailed")
        self.kept[Key] = Body

    def get_object(self, *, Key, **_):  # noqa: N803 - names of S3
        if Key not in self.kept:
            raise RefusedError("NoSuchKey")
        return {"Body": io.BytesIO(self.kept[Key]), "ETag": self._etag(Key)}

    def delete_object(self, *, Key, **_):  # noqa: N803 - names of S3
        self.kept.pop(Key, None)

    def list_objects_v2(self, **_):
        return {"Contents": [{"Key": key} for key in self.kept]}

    def create_bucket(self, **_):
        """There is one."""


class Watched:
    """A client of which each put is shown before it is sent."""

    def __init__(self, client):
        self._client, self.shown = client, lambda _: None

    def __getattr__(self, name):
        return getattr(self._client, name)

    def put_object(self, **params):
        self.shown(params)
        return self._client.put_object(**params)


@pytest.fixture(scope="module")
def endpoint():
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.daily), "moto"])
def client(request):
    if request.param == "memory":
        yield Watched(Memory())
        return
    made = pytest.importorskip("boto3").client(
        "s3",
        endpoint_url=request.getfixturevalue("endpoint"),
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    yield Watched(made)
    made.close()


@pytest.fixture
def guard(client):
    bucket = f"b{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket)
    return BucketFenceGuard(client, bucket)


def keys(guard):
    found = guard._client.list_objects_v2(Bucket=guard.bucket).get("Contents", [])
    return [each["Key"] for each in found]


def before_the_pointer(client, act):
    """Run ``act`` once, right before the next pointer is written: another writer is faster."""

    def first(params):
        if "IfMatch" in params or "IfNoneMatch" in params:
            client.shown = lambda _: None
            act()

    client.shown = first


def test_the_older_of_two_is_refused(guard):
    guard.put("day", b"new", NEW)
    guard.put("day", b"new again", NEW)
    with pytest.raises(Stale) as refused:
        guard.put("day", b"old", OLD)

    assert (refused.value.fence, refused.value.seen) == (33, 34)
    assert guard.get("day") == b"new again"
    assert guard.fence("day") == 34


@pytest.mark.parametrize("stored", [None, b"first"])
def test_an_older_one_that_has_read_before_is_refused(guard, client, stored):
    if stored is not None:
        guard.put("day", stored, FencingToken("report", 7))
    guard.put("other", b"", NEW)  # the store is known by now
    before_the_pointer(client, lambda: guard.put("day", b"new", NEW))

    with pytest.raises(Stale):
        guard.put("day", b"old", OLD)

    assert guard.get("day") == b"new"
    assert len([key for key in keys(guard) if key.startswith("day")]) == 2


def test_the_same_bytes_again_are_no_way_in(guard, client):
    """The ETag of equal content is equal: it must not stand for the fence."""
    guard.put("day", b"same", FencingToken("report", 7))
    before_the_pointer(client, lambda: guard.put("day", b"same", NEW))

    with pytest.raises(Stale):
        guard.put("day", b"old", OLD)
    assert guard.get("day") == b"same"


def test_a_newer_one_that_was_overtaken_by_an_older_is_written(guard, client):
    guard.put("other", b"", NEW)
    before_the_pointer(client, lambda: guard.put("day", b"old", OLD))
    guard.put("day", b"new", NEW)

    assert guard.get("day") == b"new"
    assert len([key for key in keys(guard) if key.startswith("day")]) == 2  # pointer and data


def test_a_write_whose_answer_was_lost_counts_once(guard, client):
    """The client repeats it, and is refused by its own first try."""
    guard.put("day", b"one", OLD)

    real, seen = guard._write, []

    def write(key, text, etag):
        done = real(key, text, etag)
        if key == "day" and not seen:
            seen.append(done)
            return real(key, text, etag)
        return done

    guard._write = write
    guard.put("day", b"two", NEW)
    assert (seen, guard.get("day")) == ([True], b"two")
    assert len([key for key in keys(guard) if key.startswith("day")]) == 2


def test_a_reader_meets_a_writer(guard):
    """The data that the pointer named is deleted before it is read: the pointer is read again."""
    guard.put("day", b"one", OLD)
    real = guard._fetch

    def fetch(key):
        if ".data/" in key:
            guard._fetch = real
            guard.put("day", b"two", NEW)
        return real(key)

    guard._fetch = fetch
    assert guard.get("day") == b"two"


def test_the_lease_of_a_real_lock(guard, locks):
    with fencelock.Client(locks.url) as client:
        with client.lock("report", ttl=10) as lease:
            guard.put("day", b"data", lease, ContentType="text/plain")
        with pytest.raises(fencelock.NotHeld):
            guard.put("day", b"late", lease)
        with client.multi(["a", "b"]) as both, pytest.raises(ValueError, match="of one lock"):
            guard.put("day", b"late", both)
    assert guard.fence("day") == lease.fence


def test_what_the_guard_did_not_write_is_not_read_as_a_pointer(guard, client):
    client.put_object(Bucket=guard.bucket, Key="plain", Body=b"[1]")
    with pytest.raises(ValueError, match="'plain' stores no pointer"):
        guard.put("plain", b"x", NEW)
    with pytest.raises(ValueError, match="'plain' stores no pointer"):
        guard.get("plain")
    with pytest.raises(KeyError):
        guard.get("nothing")
    guard.put("day", b"x", NEW)
    with pytest.raises(ValueError, match="guarded by the lock 'report', not 'else'"):
        guard.put("day", b"x", FencingToken("else", 99))


def test_a_store_that_ignores_conditions_is_found_out(guard, client):
    client.shown = lambda params: [params.pop(name, None) for name in ("IfMatch", "IfNoneMatch")]
    with pytest.raises(fencelock.ServerUnsuitable, match="ignores If-Match"):
        guard.put("day", b"x", NEW)
    assert keys(guard) == []


def test_what_is_no_client_is_named(client):
    with pytest.raises(TypeError, match="client must be"):
        BucketFenceGuard(object(), "bucket")
    with pytest.raises(TypeError, match="bucket must be"):
        BucketFenceGuard(client, 7)
