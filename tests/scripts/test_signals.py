"""The scripts of events, latches and barriers, call by call: replies, messages, and what stays."""

import pytest

from fencelock import scripts
from tests.scripts.calls import MINUTE, Space, keys
from verification.simulator.keyspace import CommandError

STATE, WATCH, IDS, PLACES = A = keys(b"a", "state watch ids places")
IDLE = 90_000  # how long a state is kept unused, ms
ASKS = 5000  # server_timeout, ms
REPEATS = 2 * ASKS + MINUTE  # for how long a request is remembered, ms


def event(space, what, number=b"1", *answered, idle=IDLE, asks=ASKS):
    return space.run(scripts.EVENT, A, what, idle, number, asks, *answered)


def latch(space, what, number=b"1", *answered, of=3, by=1, idle=IDLE):
    return space.run(scripts.LATCH, A, what, idle, number, of, by, ASKS, *answered)


def gate(space, *waiters, kind=b"event", of=b"", what=b"wait", idle=IDLE):
    """Ask for waiters, each (channel, generation, since when it has asked in us)."""
    words = [word for each in waiters for word in each]
    return space.run(scripts.EVENT_WAIT, A, kind, idle, of, what, *words)


def arrive(space, who, parties=2, *, acts=False, idle=IDLE):
    args = (parties, idle, ASKS, who, b"c-" + who, int(acts))
    return space.run(scripts.BARRIER_ARRIVE, A, *args)[0]


def look(space, *parties, what=b"look", of=2):
    """Ask for parties, each (waiter, generation that it waits for without a place in it)."""
    words = [word for who, without in parties for word in (who, b"c-" + who, without)]
    return space.run(scripts.BARRIER_CHECK, A, of, IDLE, ASKS, what, *words)


def change(space, what, number=b"1", of=2):
    return space.run(scripts.BARRIER_CHANGE, A, of, IDLE, ASKS, what, number)


def shown(space):
    return space.run(scripts.SIGNAL_SHOW, A[:2])


def number(text):
    return b"%d" % text


# --- events ---------------------------------------------------------------------------------------


def test_an_event_is_set_cleared_and_looked_at(space):
    assert event(space, b"look") == 0
    assert space.ttls(*A) == [-2] * 4
    for count, (what, is_set) in enumerate(((b"set", 1), (b"set", 1), (b"clear", 0), (b"set", 1))):
        assert event(space, what, number(count)) == is_set
        assert space.ttls(*A) == [IDLE, -2, REPEATS, -2]
        assert event(space, b"look") == is_set
        assert shown(space) == [b"event", is_set, 0, 0, b"", 0, IDLE]
    event(space, b"look", idle=2 * IDLE)
    assert space.ttls(STATE) == [2 * IDLE]
    assert event(space, b"delete", b"d") == 0
    assert space.ttls(STATE, IDS) == [-2, REPEATS]
    assert shown(space) == [b"", 0, 0, 0, b"", 0, 0]


@pytest.mark.parametrize("times", [1, 2])
def test_a_waiter_passes_however_often_it_was_set_and_cleared_since(space, times):
    gen = gate(space, (b"c", b"", 0))[0][1]
    for what in (b"set", b"clear") * times:
        space.wait(1)
        event(space, what, number(space.now))
    assert gate(space, (b"c", gen, 0)) == [[1, space.command(b"HGET", STATE, b"gen"), 0]]
    assert gate(space, (b"c", gen, 0), (b"d", b"", 0))[0][0] == 1


@pytest.mark.parametrize("kind", [b"event", b"latch"])
def test_a_waiter_of_what_is_open_passes_and_is_on_no_list(space, kind):
    of = b"" if kind == b"event" else b"3"
    if kind == b"event":
        event(space, b"set")
    else:
        latch(space, b"count_down", by=3)
    gen = space.command(b"HGET", STATE, b"gen")
    one, silent = (b"c", b"", 0), (b"", b"", 0)
    assert gate(space, one, kind=kind, of=of, idle=2 * IDLE) == [[1, gen, 0]]
    assert space.ttls(STATE, WATCH) == [2 * IDLE, -2]
    assert gate(space, one, silent, kind=kind, of=of) == [[1, gen, 0]] * 2
    assert gate(space, silent, kind=kind, of=of, what=b"leave") == [[1, gen, 1]]


def test_what_is_open_is_nothing_of_another_kind_or_count(space):
    latch(space, b"count_down", by=3)
    with pytest.raises(CommandError, match="holds a latch, not an event"):
        gate(space, (b"c", b"", 0))
    with pytest.raises(CommandError, match="holds a latch, not an event"):
        event(space, b"look")
    with pytest.raises(CommandError, match="holds a latch of 3, not of 4"):
        gate(space, (b"c", b"", 0), kind=b"latch", of=b"4")


def test_a_request_that_comes_again_changes_nothing(space):
    assert event(space, b"set", b"s") == 1
    assert event(space, b"clear", b"c") == 0
    for _ in range(3):
        assert event(space, b"set", b"s") == 0
        space.wait(20)
    assert event(space, b"set", b"new") == 1
    space.wait(REPEATS / 1000 - 20)
    event(space, b"clear", b"last")
    assert space.line(IDS) == [b"new", b"last"]


def test_a_request_is_remembered_as_long_as_its_own_client_may_repeat_it(space):
    event(space, b"set", b"slow", asks=100_000)
    event(space, b"clear", b"quick", asks=1000)
    assert space.ttls(IDS) == [260_000]
    space.wait(61.999)
    event(space, b"clear", b"one")
    assert set(space.line(IDS)) == {b"quick", b"one", b"slow"}
    space.wait(0.001)
    event(space, b"clear", b"another")
    assert set(space.line(IDS)) == {b"one", b"another", b"slow"}
    assert event(space, b"set", b"slow") == 0


def test_requests_that_were_answered_are_forgotten(space):
    for each in (b"a", b"b", b"c"):
        event(space, b"set", each)
    event(space, b"set", b"d", b"a", b"c")
    assert sorted(space.line(IDS)) == [b"b", b"d"]
    latch_space = Space()
    for each in (b"a", b"b", b"c"):
        latch(latch_space, b"count_down", each, of=9)
    latch(latch_space, b"count_down", b"d", b"a", b"c", of=9)
    assert sorted(latch_space.line(IDS)) == [b"b", b"d"]


def test_a_look_keeps_only_those_on_the_list_who_are_there(space):
    for each in (b"c1", b"c2", b"c3"):
        gate(space, (each, b"", 0))
        space.wait(1)
    gen = number(space.now - 3_000_000)
    gate(space, (b"c2", gen, 0), what=b"leave")
    reply = gate(space, (b"c1", gen, 0), (b"c2", gen, 0), (b"c3", gen, 0), (b"", gen, 0))
    assert reply == [[0, gen, 1], [0, gen, 0], [0, gen, 1], [0, gen, 1]]
    assert space.line(WATCH) == [b"c1", b"c3"]
    assert [space.score(WATCH, each) for each in (b"c1", b"c3")] == [space.now] * 2
    assert gate(space, (b"c2", gen, 0), (b"c9", gen, 0))[0][2] == 1
    assert space.line(WATCH) == [b"c1", b"c2", b"c3"]
    assert shown(space)[5] == 3


# --- latches --------------------------------------------------------------------------------------


def test_a_latch_is_counted_down_to_nothing(space):
    assert latch(space, b"look") == 3
    assert space.ttls(*A) == [-2] * 4
    gen = gate(space, (b"c", b"", 0), kind=b"latch", of=3)[0][1]
    assert shown(space) == [b"latch", 0, 3, 3, b"", 1, IDLE]
    for count, (by, left) in enumerate(((1, 2), (5, 0), (1, 0))):
        assert latch(space, b"count_down", number(count), by=by) == left
        assert latch(space, b"count_down", number(count), by=by) == left
        assert latch(space, b"look") == left
        assert space.ttls(STATE, IDS) == [IDLE, REPEATS]
    assert space.heard == [(b"c", b"signal %s open a~state" % gen)]
    assert shown(space) == [b"latch", 1, 0, 3, b"", 0, IDLE]
    assert gate(space, (b"c", b"", 0), kind=b"latch", of=3)[0][0] == 1
    assert latch(space, b"reset", b"r") == 3
    assert gate(space, (b"c", b"", 0), kind=b"latch", of=3)[0][0] == 0
    assert latch(space, b"count_down", b"more") == 2
    assert latch(space, b"reset", b"r") == 2
    assert latch(space, b"delete", b"d") == 3
    assert space.ttls(STATE) == [-2]
    assert latch(space, b"count_down", b"x") == 2
    assert latch(space, b"delete", b"d") == 3
    assert latch(space, b"look") == 2


# --- barriers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["timeout", "abort", "reset"])
def test_each_party_learns_what_became_of_its_own_generation(space, why):
    """One passed, then one broke, then one is under way."""
    gens = [number(space.now)]
    arrive(space, b"p1")
    arrive(space, b"p2")
    space.wait(1)
    gens.append(arrive(space, b"b1")[1])
    if why == "timeout":
        assert look(space, (b"b1", b""), what=b"timeout") == [[b"broken", gens[1], b"timeout"]]
        assert space.line(WATCH) == []
    else:
        change(space, why.encode(), b"r1")
        assert space.heard[-1] == (b"c-b1", b"signal %s %s a~state" % (gens[1], why.encode()))
    assert change(space, b"look") == [0, b"" if why == "reset" else why.encode()]
    space.wait(1)
    if why != "reset":
        assert arrive(space, b"n1")[::2] == [b"broken", why.encode()]
        assert shown(space)[4] == why.encode()
        change(space, b"reset", b"r2")
    assert change(space, b"look") == [0, b""]
    gens.append(arrive(space, b"w1")[1])
    reply = look(space, *((each, b"") for each in (b"p1", b"b1", b"w1", b"p2", b"none")))
    assert reply == [
        [b"passed", gens[0], b"0"],
        [b"broken", gens[1], why.encode()],
        [b"wait", gens[2], b"0"],
        [b"passed", gens[0], b"1"],
        [b"broken", b"0", b"lost"],
    ]
    change(space, b"reset", b"r3")
    later = look(space, *((each, b"") for each in (b"b1", b"w1")))
    assert later == [[b"broken", gens[1], why.encode()], [b"broken", gens[2], b"reset"]]


def test_parties_that_wait_are_told_when_the_barrier_is_deleted(space):
    gen = arrive(space, b"x")[1]
    assert change(space, b"delete") == [0, b""]
    assert space.heard == [(b"c-x", b"signal %s deleted a~state" % gen)]
    assert space.ttls(STATE, WATCH) == [-2] * 2
    assert space.ttls(PLACES) > [0]  # those that did not hear it may ask for the outcome
    arrive(space, b"y")
    assert change(space, b"delete")[0] == 1
    assert change(space, b"look") == [1, b""]


def test_a_look_proves_each_party_by_its_own_name_and_channel(space):
    for each in (b"x", b"y", b"z"):
        arrive(space, each, 9)
    for seconds in (2, 4, 6, 8, 10):
        space.wait(2)
        reply = look(space, (b"x", b""), (b"z", b""), (b"y", b""), of=9)
        assert [each[0] for each in reply] == [b"wait"] * 3
        proofs = [space.score(WATCH, b"%s c-%s" % (each, each)) for each in (b"x", b"y", b"z")]
        assert proofs == [space.now] * 3
        left = REPEATS - seconds * 1000
        assert space.ttls(*A) == [IDLE, MINUTE, left, left]
    assert space.command(b"ZCARD", WATCH) == 3


@pytest.mark.parametrize(("silent", "listens", "dead"), [
    (4.0, False, False), (4.1, False, True), (4.1, True, False), (7.0, True, False),
    (7.1, True, True),
])  # fmt: skip
def test_a_party_that_gives_no_proof_of_life_breaks_the_barrier(space, silent, listens, dead):
    gen = arrive(space, b"x", 3)[1]
    arrive(space, b"y", 3)
    if not listens:
        space.deaf = {b"c-x"}
    while silent > 2:
        space.wait(2)
        silent -= 2
        look(space, (b"y", b""), of=3)
    space.wait(silent)
    reply = look(space, (b"y", b""), of=3)[0]
    assert reply == ([b"broken", gen, b"dead"] if dead else [b"wait", gen, b"1"])
    assert change(space, b"look", of=3) == ([0, b"dead"] if dead else [2, b""])


def test_a_party_that_waits_is_known_for_as_long_as_it_waits(space):
    """Its request may come again at any time, and counts once."""
    arrive(space, b"x", 3)
    for _ in range(REPEATS // 2000 + 1):
        space.wait(2)
        look(space, (b"x", b""), of=3)
    arrive(space, b"y", 3)
    arrive(space, b"x", 3)
    assert change(space, b"look", of=3) == [2, b""]


def test_after_a_silence_of_all_each_party_has_as_long_as_ever(space):
    gen = arrive(space, b"x", 3)[1]
    arrive(space, b"y", 3)
    space.wait(8)  # the server was out of reach
    assert look(space, (b"y", b""), of=3) == [[b"wait", gen, b"1"]]
    assert arrive(space, b"z", 3) == [b"full", gen, b""]
    space.wait(2)
    look(space, (b"x", b""), of=3)
    assert (b"c-z", b"signal %s again a~state" % gen) in space.heard
    assert look(space, (b"z", gen), of=3) == [[b"again", gen, b"timeout"]]
    assert arrive(space, b"z", 3) == [b"passed", gen, b"2"]


def test_an_action_that_never_began_is_as_if_its_party_had_not_come(space):
    gen = arrive(space, b"x")[1]
    arrive(space, b"y", acts=True)
    arrive(space, b"z")
    look(space, (b"y", b""), what=b"leave")
    assert space.heard == [(b"c-z", b"signal %s again a~state" % gen)]
    assert arrive(space, b"z") == [b"passed", gen, b"1"]
    arrive(space, b"x2")
    gen = arrive(space, b"y2", acts=True)[1]
    assert look(space, (b"y2", b""), what=b"abort") == [[b"broken", gen, b"abort"]]


def test_parties_that_leave_give_their_indices_to_those_that_come(space):
    for who in (b"u", b"v", b"w"):
        arrive(space, who, 4)
    for who in (b"u", b"v"):
        look(space, (who, b""), what=b"leave", of=4)
    replies = [arrive(space, who, 4) for who in (b"x", b"y", b"z")]
    assert [index for *_, index in replies] == [b"0", b"1", b"3"]


def test_a_barrier_in_use_keeps_its_number_of_parties(space):
    gen = arrive(space, b"x")[1]
    with pytest.raises(CommandError, match="holds a barrier of 2 parties, not of 3"):
        arrive(space, b"y", 3)
    assert arrive(space, b"y") == [b"passed", gen, b"1"]
    assert arrive(space, b"z", 3)[0] == b"wait"
    assert shown(space)[2:4] == [1, 3]


# --- all ------------------------------------------------------------------------------------------


ALL = {
    b"event": lambda space: event(space, b"set", b"n"),
    b"latch": lambda space: latch(space, b"count_down", b"n"),
    b"barrier": lambda space: arrive(space, b"n"),
}
WAITS = {
    b"event": lambda space: gate(space, (b"c", b"", 0)),
    b"latch": lambda space: gate(space, (b"c", b"", 0), kind=b"latch", of=3),
}
LOOKS = {b"barrier": [
    lambda space: look(space, (b"n", b"")), lambda space: change(space, b"look", b"n"),
]}  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_a_name_in_another_layout_of_the_keys_is_refused_as_that(space, kind):
    space.command(b"HSET", STATE, b"kind", kind + b"/9")
    before = space.keyspace.freeze()
    for asks in (ALL[kind], *([WAITS[kind]] if kind in WAITS else LOOKS[kind])):
        with pytest.raises(
            CommandError, match=f"OTHERLAYOUT the name holds an? {kind.decode()} of layout 9"
        ):
            asks(space)
    assert space.keyspace.freeze() == before


@pytest.mark.parametrize("held", ["string", "zset", "set", "event", "latch", "barrier"])
@pytest.mark.parametrize("kind", ALL)
def test_a_name_of_another_kind_is_refused_by_what_it_is(space, kind, held):
    said = {"string": "a lock", "zset": "a semaphore or reader/writer lock", "event": "an event"}
    if held == "string":
        space.command(b"SET", STATE, b"h")
    elif held in {"zset", "set"}:
        space.command(*((b"ZADD", STATE, 1) if held == "zset" else (b"SADD", STATE)), b"x")
    elif held.encode() == kind:
        return
    else:
        ALL[held.encode()](space)
    before = space.keyspace.freeze()
    words = (
        f"holds {said.get(held, 'something of another program' if held == 'set' else 'a ' + held)}"
    )
    for asks in (ALL[kind], *([WAITS[kind]] if kind in WAITS else LOOKS[kind])):
        with pytest.raises(
            CommandError, match=f"WRONGTYPE a~state {words}, not an? {kind.decode()}"
        ):
            asks(space)
    assert space.keyspace.freeze() == before
