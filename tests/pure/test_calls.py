"""A call with what belongs elsewhere is refused before anything is sent, in our words."""

import asyncio
import contextlib
import inspect
import re

import pytest
from redis import Redis

import fencelock
from fencelock import ServerUnreachable
from tests.pure.made import made_by

FACES = pytest.mark.parametrize("face", [fencelock.Client, fencelock.AsyncClient])


def call(method, /, *args, **kwargs):
    """Call a method of either face."""
    result = method(*args, **kwargs)
    if inspect.iscoroutine(result):
        asyncio.run(awaited(result))


async def awaited(coroutine):
    await coroutine


def that_acquire(client):
    """Yield each method of a client's objects that takes ``blocking``."""
    for made in made_by(client):
        for name in ("acquire", "campaign"):
            if hasattr(made, name):
                yield getattr(made, name)


@FACES
def test_seconds_in_the_place_of_blocking_are_refused_by_every_object(face):
    methods = list(that_acquire(face("redis://localhost:1")))
    assert len(methods) == 8
    for method in methods:
        for seconds in (1, 0, 5, 0.5):
            with pytest.raises(TypeError, match=f"timeout={seconds}"):
                call(method, seconds)


@FACES
@pytest.mark.parametrize(
    ("make", "options", "hint"),
    [
        ("lock", {"expire": 60}, "ttl="),
        ("lock", {"auto_release_time": 10}, "ttl="),
        ("lock", {"timeout": 30, "blocking_timeout": 5}, "the length of a lease, is ttl="),
        ("lock", {"sleep": 0.1}, "wait=Poll(interval="),
        ("lock", {"auto_renewal": True}, "renew="),
        ("lock", {"thread_local": False}, "leave it out"),
        ("lock", {"blocking": False}, "acquire(blocking=False)"),
        ("rlock", {"id": "worker-1"}, "owner="),
        ("lock", {"time_out": 5}, "did you mean timeout="),
        ("lock", {"token": "t"}, "rlock(name, owner=)"),
        ("rlock", {"lock_identifier": "t"}, "owner="),
        ("lock", {"retry_times": 3}, "max_tries="),
        ("lock", {"retry_delay_min": 0.1}, "wait=Poll(interval="),
        ("lock", {"ttl_ms": 5000}, "the length of a lease is ttl=, in seconds"),
        ("lock", {"px": 5000}, "ttl=, in seconds"),
        ("rlock", {"expire_millis": 5000}, "ttl=, in seconds"),
        ("semaphore", {"wait_time_ms": 5}, "timeout=, in seconds"),
        ("lock", {"context_manager_timeout": 5}, "how long to wait is timeout="),
        ("lock", {"fair": True}, "cohort=None"),
        ("lock", {"reentrant": True}, "rlock(name)"),
        ("lock", {"shared": True}, "rwlock(name)"),
        ("lock", {"raise_on_release_error": False}, "leave it out"),
        ("lock", {"resource": "a"}, "the first argument"),
        ("lock", {"zzz": 5}, "its options are name, ttl, renew"),
        ("event", {"expire": 60}, "its options are name, idle_ttl"),
        ("locked", {"num_extensions": 3}, "max_renewals="),
    ],
)
def test_an_option_of_another_library_is_refused_with_ours(face, make, options, hint):
    method = getattr(face("redis://localhost:1"), make)
    with pytest.raises(TypeError, match=f"has no option '{[*options][-1]}'") as raised:
        method("a", **options)
    assert f"{face.__name__}.{make}()" in str(raised.value)
    assert hint in str(raised.value)


@FACES
@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("blocking_timeout", "how long to wait is timeout="),
        ("ttl_ms", "it is an option of what is acquired, as in lock(name, ttl=), in seconds"),
        ("expire", "as in lock(name, ttl=)"),
        ("time_out", "did you mean timeout="),
        ("zzz", "its options are blocking, timeout"),
    ],
)
def test_an_option_that_acquire_does_not_have_is_refused_with_a_hint(face, option, hint):
    acquiring = [each for each in objects(face) if hasattr(each, "acquire")]
    assert len(acquiring) >= 6
    for each in acquiring:
        with pytest.raises(TypeError) as raised:
            asyncio.run(each.acquire(**{option: 5}))
        name = type(each).__name__
        assert f"{name}.acquire() has no option '{option}'" in str(raised.value)
        assert hint in str(raised.value)


@FACES
def test_options_are_given_by_name(face):
    client = face("redis://localhost:1")
    with pytest.raises(TypeError, match=r"by name, not 30: ttl=, renew="):
        client.lock("a", 30)
    with pytest.raises(TypeError, match=r"Client\(\) takes its options by name, not 6379: "):
        face("localhost", 6379)


@FACES
def test_a_flag_is_true_or_false(face):
    """``"no"`` and 10, a number of seconds, would mean yes."""
    client = face("redis://localhost:1")
    for make, option in (("lock", "renew"), ("lock", "strict"), ("rwlock", "reentrant")):
        with pytest.raises(TypeError, match=f"{option} must be True or False, not 'no'"):
            getattr(client, make)("a", **{option: "no"})
    with pytest.raises(TypeError, match="release must be True or False, not 'no'"):
        call(getattr(client, "aclose", None) or client.close, release="no")


@FACES
def test_an_object_of_a_client_and_a_name_says_who_makes_it(face):
    """As redis-py's are made."""
    client = face("redis://localhost:1")
    for each in (client.lock("a"), client.event("a"), client.rwlock("a"), client.election("a")):
        made = type(each)
        for given in ((client, "a"), ("a", client), (Redis(port=1), "a")):
            with pytest.raises(TypeError, match=f"{made.__name__} objects are made by a client"):
                made(*given)


def objects(face):
    """Return one of everything that the client of a face makes, and the client."""
    return list(made_by(face("redis://localhost:1")))


def methods_of(made):
    """Yield what users call of an object."""
    for name in dir(made):
        member = inspect.getattr_static(made, name)
        if inspect.isfunction(member) and not name.startswith("_"):
            yield getattr(made, name)


PRIVATE = re.compile(
    r"(?<!\w)_\w|Base|Makes|Opens|\bport\b|\bkeys\b|\bsettings\b|\bholds\b|\bgate\b"
)


@FACES
def test_errors_of_calls_are_in_public_names(face):
    """Neither a private class nor a parameter that users do not pass stands in them."""
    for made in objects(face):
        for method in methods_of(made):
            for args, options in (((), {"zzz": 1}), (range(20), {})):
                if method.__name__ in {"run", "wait_for"} and args:
                    continue  # they take what a user's function takes
                with pytest.raises(TypeError) as raised:
                    call(method, *args, **options)
                assert method.__name__ in str(raised.value)
                assert not PRIVATE.search(str(raised.value)), raised.value


@FACES
def test_a_condition_is_gone_and_says_what_to_use(face):
    """A name that is gone stands nowhere, and who calls it all the same learns what to use."""
    client, kind = face("redis://localhost:1"), face.__name__.replace("Client", "Condition")
    assert not hasattr(client, "condition")
    assert "condition" not in {*dir(client), *dir(face)}
    instead = r": .* use an event, a latch, or a list with BLPOP beside a lock$"
    with pytest.raises(AttributeError, match=f"'{face.__name__}' .*'condition'{instead}"):
        client.condition("a")
    assert kind not in dir(fencelock)
    with pytest.raises(AttributeError, match=f"'fencelock' has no attribute '{kind}'{instead}"):
        getattr(fencelock, kind)
    with pytest.raises(AttributeError, match=f"'{face.__name__}' object has no attribute 'lokc'$"):
        client.lokc("a")


def test_a_call_that_does_not_fit_a_decorated_function_names_the_function():
    client = fencelock.Client("redis://localhost:1")

    @client.locked("order:{order}")
    def pay(order):
        """Pay."""

    for args, wrong in (((), "missing a required argument: 'order'"), ((1, 2), "too many")):
        with pytest.raises(TypeError, match=rf"pay\(\) {wrong}"):
            pay(*args)


@FACES
def test_a_timeout_that_may_be_meant_as_a_ttl_is_doubted_by_acquire(face):
    """In redis-py ``lock(name, timeout=30)`` is a lease of 30 s, and here it bounds ``with``."""
    client = face("redis://localhost:1", server_timeout=0.01)
    for make in (client.lock, client.rlock):
        doubted = pytest.warns(UserWarning, match=r"the length of the lease.* write ttl=30")
        with doubted as warned, contextlib.suppress(ServerUnreachable):
            call(make("a", timeout=30).acquire, timeout=0.01)
        assert [each.filename for each in warned] == [__file__]
        for options in ({"timeout": 30, "ttl": 30}, {"ttl": 30}, {"timeout": -1}, {}):
            with contextlib.suppress(ServerUnreachable):
                call(make("a", **options).acquire, timeout=0.01)


def test_what_is_to_be_awaited_can_be_asked_for_before_a_loop_runs():
    barrier = fencelock.AsyncClient("redis://localhost:1").barrier("a", 2)
    for question in (barrier.n_waiting, barrier.broken):
        assert inspect.isawaitable(question)
        question.close()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_what_is_not_awaited_is_no_condition_and_no_block():
    """Any coroutine is true: a body behind it would run without the lock."""
    asked = ("acquire", "campaign", "is_set", "locked", "owned")
    methods = [
        getattr(each, name)
        for each in objects(fencelock.AsyncClient)[1:]
        for name in asked
        if hasattr(each, name)
    ]
    assert len(methods) >= 20
    for method in methods:
        assert inspect.iscoroutinefunction(method)
        with pytest.raises(TypeError, match=r"\(\) has no answer yet: await it$"):
            bool(method())
        with pytest.raises(TypeError, match=r"\(\) is no block: .*`async with` the object itself$"):
            asyncio.run(entered(method()))


async def entered(block):
    async with block:
        pass
