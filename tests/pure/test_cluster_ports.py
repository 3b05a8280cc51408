"""_topology/cluster*.py: where a waiter listens, what is asked of which node, and how often."""

import asyncio
import socket
import threading
from types import SimpleNamespace

import pytest

from fencelock._core.keys import LockKeys, slot
from fencelock._core.lock import acquire
from fencelock._core.lock.attempt import Attempt
from fencelock._core.lock.terms import Terms
from fencelock._core.lock.waiting import Lines
from fencelock._core.round_trips import RoundTrips
from fencelock._core.types import NoReply
from fencelock._io.cluster_asyncio import AsyncioClusterPort
from fencelock._io.connection_asyncio import AsyncConnection
from fencelock._io.connection_blocking import Connection
from fencelock._io.io_blocking import BlockingIo, BlockingSeveral
from fencelock._io.pool_blocking import Pool
from fencelock._io.process_ports import ClientOptions
from fencelock._io.sources.cluster import from_url
from fencelock._io.threads import run_blocking
from fencelock._io.wire import ReplyError, server_error
from fencelock._runtime.clock import now
from fencelock._topology import slots
from fencelock._topology.cluster import ANYWHERE, FAN_MAX, Batch, ClusterPort
from fencelock._topology.cluster_map import ClusterMap
from fencelock._topology.slots import (
    LOCAL,
    READ_MAP,
    ClusterSource,
    NodeAddress,
    in_slot,
    key_in,
    tag_in,
)
from fencelock.errors import ClientClosed, ServerDenied, ServerUnreachable
from fencelock.options import LeaseOptions
from fencelock.scripts import ACQUIRE
from tests.faults.world import spawn, wait_until

A, B, C = NodeAddress("a", 1), NodeAddress("b", 2), NodeAddress("c", 3)
ALL = [[0, 16383, [b"a", 1], [b"b", 2]]]
SOON, AT_ONCE = 10.0, 0.05
CLUSTERED = ClusterSource((A, B), lambda node: node, "two nodes")
GET = b"GET"


def error(text):
    return server_error(ReplyError(text))


class Nodes(BlockingIo):
    """Implements ``NodeIo``: nodes answer as a test says, and all that is asked is noted.

    An answer is a reply, an exception, or a function of the arguments.
    """

    def __init__(self, **answers):
        self.answers = answers
        self.trips = RoundTrips()
        self.asked = []
        self.refused = {}
        self.connections = {}
        self.at = {node: Node(self.connections, node) for node in (A, B, C)}
        self.waits = []  # until when each connection was waited for
        self.written = []

    async def lend(self, node, until):
        self.waits.append(until)
        if node in self.refused:
            raise self.refused[node]
        return self.connections.setdefault(node, connection(node))

    async def run(self, connection, packed, until, *, asking=False):
        return self._answer(connection, "run", (packed,), asking)

    async def command(self, connection, args, until):
        return self._answer(connection, "command", args, False)

    async def subscribe(self, connection, channel, until, word, *, asking):
        self._answer(connection, "subscribe", (word, channel), asking)

    async def exchange(self, asks, latest, limit):
        for ask in asks:
            try:
                ask.connection = ask.connection or await self.lend(ask.node, limit())
            except (NoReply, ServerUnreachable) as refused:
                ask.fail(refused)
                continue
            self.written.append(len(ask.requests))
            ask.began, ask.asked_at = True, now()
            for request in ask.requests:
                ask.answer(self._answer(ask.connection, "run", (request,), False), now())

    def put_back(self, asks):
        pass

    def _answer(self, connection, kind, args, asking):
        self.asked.append((connection.node, kind, args[0], asking))
        found = self.answers.get(f"{kind}_{connection.node.host}", self.answers.get(kind))
        found = found(*args) if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return found

    def subscribed(self):
        return [(node, word) for node, kind, word, _ in self.asked if kind == "subscribe"]


class Node:
    """Implements ``NodeConnections``."""

    def __init__(self, connections, node):
        self.connections, self.node = connections, node

    def idle(self):
        return self.connections.get(self.node)

    def give(self, connection):
        pass


def connection(node):
    return SimpleNamespace(sound=True, node=node, channels={}, topics={}, name=b"home", waiter=None)


class Port(ClusterPort):
    """A port of which nothing but the Cluster's part is real; waiters share connections."""

    closing = False

    def __init__(self, nodes):
        self.io, self.seats, self.roused, self.lines = nodes, [], [], Lines()
        self._use(CLUSTERED, nodes)
        self.slots.learn(ALL, A)
        self.slots.master_check._at = dict.fromkeys((A, B, C), now() + SOON)

    @property
    def mutex(self):
        return self.io.mutex()

    def close(self, waiter):
        waiter.origin = None

    def wake(self, waiter):
        self.roused.append(waiter)

    def sit(self, waiter, connection):
        waiter.origin = connection
        self.seats.append(waiter)

    def seated(self, connection):
        return [waiter for waiter in self.seats if waiter.origin is connection]

    def seated_as(self, connection, who):
        return next((each for each in self.seated(connection) if each.id == who), None)


def waiter(number=0, *, eager=True):
    keys = LockKeys("p:", "a")
    terms = Terms(
        keys=keys, options=LeaseOptions(ttl=30.0, renew=True), client_channel=b"h", ttl=30.0
    )
    asks = Attempt(terms, b"w%d" % number)
    asks.eager = eager
    return asks


def opened(port, asks):
    run_blocking(port.open(asks, now() + SOON))
    return asks.origin


def asked_for(port, asks):
    return run_blocking(port.run(b"packed", asks.key, now() + SOON, asks))


def moved(asks):
    return error(f"MOVED {slot(asks.key)} b:2")


# --- waiters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharded", [True, False], ids=["channels of slots", "channels of nodes"])
def test_a_waiter_keeps_its_channel_where_its_request_is_sent_on(sharded):
    """The request names the channel, and so does the place in line that it may get there."""
    asks = waiter()
    port = Port(Nodes(run_a=moved(asks), run=b"done"))
    port._sharded = sharded
    here = opened(port, asks)
    channel = asks.channel
    assert channel.endswith(LOCAL) is not sharded
    assert asked_for(port, asks) == b"done"
    there = asks.origin
    assert (here.node, there.node, asks.channel) == (A, B, channel)
    assert channel in there.channels.values()


def test_a_grant_counts_only_where_its_waiter_sits():
    """Its channel may still be heard on the connection that it left."""
    asks = waiter()
    port = Port(Nodes(run_a=moved(asks), run=b"done"))
    here = opened(port, asks)
    asked_for(port, asks)
    assert port.seated_as(here, asks.id) is None
    assert port.seated_as(asks.origin, asks.id) is asks


def test_an_undo_goes_behind_its_request_to_the_node_that_got_it_last():
    async def story():
        port, asks = AsyncioClusterPort(CLUSTERED, ClientOptions("p:", 1.0, 1.0)), waiter()
        port.slots.learn(ALL, A)
        there, posted = {}, []
        for node in (A, B):
            mux = there[node] = AsyncConnection(
                asyncio.get_running_loop(), lambda _: None, stall=1.0
            )
            mux.node, mux.sound = node, True
            link = SimpleNamespace(idle=lambda mux=mux: mux, connected=answering(mux))
            port.link.at[node] = link

        async def asked(mux, _request, _until, *, asking):
            assert not asking
            if mux is there[A]:
                raise moved(asks)
            raise NoReply("silent", sent=True)

        await port.open(asks, now() + SOON, listen=False)
        port.link.run = asked
        with pytest.raises(NoReply):
            await port.run(b"packed", asks.key, now() + SOON, asks)
        asks.began = True
        port.run_in_background = lambda *request: posted.append(request[-1])
        acquire._undo(port, asks)
        assert posted == [there[B]]

    asyncio.run(story())


def answering(mux):
    async def connected(_until):
        return mux

    return connected


def test_a_request_is_sent_on_behind_asking_and_so_is_its_subscription():
    asks = waiter()
    port = Port(Nodes(run_a=error(f"ASK {slot(asks.key)} b:2"), run=b"done"))
    opened(port, asks)
    assert asked_for(port, asks) == b"done"
    assert [(node, kind, asking) for node, kind, _, asking in port.io.asked[-2:]] == [
        (B, "subscribe", True),
        (B, "run", True),
    ]
    assert port.slots.owners[slot(asks.key)] == A


@pytest.mark.parametrize("refusal", ["ERR unknown command 'ssubscribe'", "NOPERM no permissions"])
@pytest.mark.parametrize("waited", [False, True], ids=["at first", "after a sharded one"])
def test_where_sharded_channels_are_refused_a_waiter_listens_to_another(refusal, waited):
    asks = waiter()

    def refuse(word, _channel):
        return error(refusal) if word == b"SSUBSCRIBE" else None

    port = Port(Nodes(subscribe_b=refuse, subscribe_a=None if waited else refuse))
    port.slots.owners[slot(asks.key)] = A
    if waited:
        assert opened(port, asks).node == A
        port.slots.owners[slot(asks.key)] = B
    listening = opened(port, asks)
    assert asks.channel == b"home" + LOCAL == listening.channels[ANYWHERE]
    assert port.io.subscribed()[-2:] == [
        (listening.node, b"SSUBSCRIBE"),
        (listening.node, b"SUBSCRIBE"),
    ]
    opened(port, waiter(1))
    assert len(port.io.subscribed()) == (3 if waited else 2)


def test_a_request_that_names_a_channel_that_was_refused_is_not_sent_on():
    """It would have the grant published where the waiter does not listen."""
    asks = waiter()

    def refuse(word, _channel):
        return error("NOPERM no permissions") if word == b"SSUBSCRIBE" else None

    port = Port(Nodes(run_a=moved(asks), subscribe_b=refuse))
    opened(port, asks)
    with pytest.raises(NoReply) as raised:
        asked_for(port, asks)
    assert not raised.value.sent
    assert [node for node, kind, _, _ in port.io.asked if kind == "run"] == [A]


def test_a_user_who_may_subscribe_to_nothing_gets_the_error():
    port = Port(Nodes(subscribe=error("NOPERM no permissions")))
    with pytest.raises(ServerDenied):
        opened(port, waiter())


def test_waiters_of_a_channel_that_the_server_ends_ask_again_and_no_others():
    ended, stays = waiter(0), waiter(1)
    port = Port(Nodes())
    listening = opened(port, ended)
    port.sit(stays, listening)
    stays.channel = listening.channels[7] = b"another"
    assert port.taken(listening, [b"sunsubscribe", ended.channel, 1]) is None
    assert (ended.news, stays.news) == (True, False)
    assert port.roused == [ended]
    assert listening.channels == {7: b"another"}
    assert port.slots.doubtful


def test_a_subscription_that_the_server_ends_right_behind_its_answer_is_none():
    asks = waiter()
    port = Port(Nodes())
    port.io.answers["subscribe"] = lambda _, channel: port.taken(
        port.io.connections[A], [b"sunsubscribe", channel, 1]
    )
    with pytest.raises(NoReply, match="ended the subscription"):
        opened(port, asks)
    assert asks.channel == b""
    assert not port.io.connections[A].channels


def test_the_first_sharded_channel_is_not_relied_on_before_the_server_has_taken_it():
    """As found: Redis 6.2 refuses it, and a waiter that had asked with it left an entry in line."""
    port, asks = Port(Nodes()), waiter()
    under_way = opened(port, waiter(1, eager=False))
    under_way.channels[slot(asks.key)] = in_slot(b"other", slot(asks.key))
    opened(port, asks)
    assert port.io.subscribed() == [(A, b"SSUBSCRIBE")]


def test_one_that_asks_for_the_first_time_listens_where_that_costs_nothing():
    port, asks = Port(Nodes()), waiter(eager=False)
    assert opened(port, asks) is port.io.connections[A]
    assert asks.channel == b""
    opened(port, waiter(1))  # from now on it is known that the server takes sharded channels
    before = port.io.subscribed()
    channel = in_slot(b"other", slot(asks.key))
    port.io.connections[A].channels[slot(asks.key)] = channel
    opened(port, asks)
    assert asks.channel == channel
    assert port.io.subscribed() == before
    port.closing = True
    with pytest.raises(ClientClosed):
        opened(port, asks)


def test_waiters_of_a_connection_that_was_lost_ask_again():
    lost, other = waiter(0), waiter(1)
    port = Port(Nodes())
    listening = opened(port, lost)
    port.sit(other, connection(B))
    port.lost(listening)
    assert (lost.news, other.news, port.slots.doubtful) == (True, False, True)


# --- the map --------------------------------------------------------------------------------------


def found_by(nodes):
    """Return a map that was read once, long ago, and is in doubt."""
    known = ClusterMap(CLUSTERED, nodes)
    known.slots.learn(ALL, A)
    known.slots.read_at = 0.0
    known.slots.invalidate(None)
    return known


def readings(nodes):
    return [node for node, _, word, _ in nodes.asked if word == READ_MAP[0]]


def test_a_map_that_no_node_tells_is_not_asked_for_again_at_once():
    nodes = Nodes(command=NoReply("silent", sent=True))
    known = found_by(nodes)
    began = now()
    assert run_blocking(known.owner(key_in(1), began + SOON)) == A
    assert known.slots.doubtful
    assert known.slots.read_at >= began
    run_blocking(known.owner(key_in(1), now() + SOON))
    assert readings(nodes) == [A, B]


def test_a_reading_ends_in_time_and_the_next_one_begins_at_another_node():
    def silent(*_):
        wait_until(lambda: now() >= until, SOON, "its time is up")
        return NoReply("silent", sent=True)

    nodes = Nodes(command_a=silent, command_b=ALL)
    known = found_by(nodes)
    until = now() + AT_ONCE
    assert run_blocking(known.owner(key_in(1), until)) == A
    assert readings(nodes) == [A]
    known.slots.read_at = 0.0
    run_blocking(known.owner(key_in(1), now() + SOON))
    assert readings(nodes) == [A, B]
    assert not known.slots.doubtful


def test_an_address_that_was_never_reached_is_an_error_and_a_known_one_may_come_back():
    nodes = Nodes()
    nodes.refused[A] = nodes.refused[B] = ServerUnreachable("refused", code="REFUSED")
    with pytest.raises(ServerUnreachable):
        run_blocking(ClusterMap(CLUSTERED, nodes).owner(b"", now() + SOON))
    with pytest.raises(NoReply):
        run_blocking(found_by(nodes).lend(A, now() + SOON))


class Slow:
    """An answer that waits for the test, and counts who asks for it."""

    def __init__(self, answer):
        self.answer, self.asked, self.goes = answer, 0, threading.Event()

    def __call__(self, *_):
        self.asked += 1
        self.goes.wait(SOON)
        return self.answer


CALLERS = 5


def at_once(flow, slow, joined):
    """Have several threads run a flow while the first one's answer is awaited; return the jobs."""
    jobs = [spawn(run_blocking, flow())]
    wait_until(lambda: slow.asked == 1, SOON, "the first one asks")
    jobs += [spawn(run_blocking, flow()) for _ in range(CALLERS - 1)]
    wait_until(joined, SOON, "the others wait for it")
    slow.goes.set()
    return jobs


def waiting_for(nodes, count):
    """Have every latch of these nodes counted; return a function that says if so many wait."""
    waits = []
    latch = nodes.latch

    def counted():
        made = latch()
        wait = made.wait_until

        async def noted(until):
            waits.append(made)
            return await wait(until)

        made.wait_until = noted
        return made

    nodes.latch = counted
    return lambda: len(waits) >= count


def test_all_that_need_the_map_at_once_have_it_read_once():
    slow = Slow(ALL)
    nodes = Nodes(command=slow)
    joined = waiting_for(nodes, CALLERS - 1)
    known = found_by(nodes)
    jobs = at_once(lambda: known.owner(key_in(1), now() + SOON), slow, joined)
    assert [job.result(SOON) for job in jobs] == [A] * CALLERS
    assert readings(nodes) == [A]


@pytest.mark.parametrize("replaced", [False, True])
def test_all_that_doubt_one_node_at_once_have_it_asked_about_once(replaced):
    key = key_in(1)
    slow = Slow(b"mine" if replaced else error("MOVED 1 a:1"))
    nodes = Nodes(command_b=lambda word, *_: slow() if word == GET else [[0, 16383, [b"b", 2]]])
    joined = waiting_for(nodes, CALLERS - 1)
    known = found_by(nodes)
    jobs = at_once(lambda: known.confirm(key, A, now() + SOON), slow, joined)
    for job in jobs:
        assert isinstance(job.exception(SOON), NoReply) is replaced
    assert slow.asked == 1


def test_who_runs_out_of_time_leaves_the_question_to_the_next():
    nodes = Nodes(command_b=error("MOVED 1 a:1"))
    known = found_by(nodes)
    question, mine = known._question(A)
    assert mine
    job = spawn(run_blocking, known.confirm(key_in(1), A, now() + SOON))
    del known._questions[A]
    question.latch.open()
    assert job.result(SOON) is None
    assert [word for _, _, word, _ in nodes.asked] == [GET]


def test_a_node_that_had_no_time_to_answer_is_not_taken_for_silent():
    """The answer that is doubted would be believed."""
    nodes = Nodes(command_b=NoReply("silent", sent=True))
    known = found_by(nodes)
    with pytest.raises(NoReply):
        run_blocking(known.confirm(key_in(1), A, now()))
    nodes.answers["command_b"] = error("MOVED 1 a:1")
    run_blocking(known.confirm(key_in(1), A, now() + SOON))
    assert nodes.asked == [(B, "command", GET, False)] * 2


def test_a_map_that_could_not_be_read_again_proves_nothing():
    def answer(word, *_):
        return b"mine" if word == GET else NoReply("silent", sent=True)

    known = found_by(Nodes(command_b=answer, command_a=NoReply("silent", sent=True)))
    with pytest.raises(NoReply, match="taken the place"):
        run_blocking(known.confirm(key_in(1), A, now() + SOON))


def test_the_answer_to_a_clean_up_counts_only_if_its_node_was_a_master_just_now():
    port = Port(Nodes())
    assert port.settles(connection(A), key_in(1), now())
    port.slots.master_check.note(A, 0.0)
    assert not port.settles(connection(A), key_in(1), now())


# --- many requests --------------------------------------------------------------------------------


def requests(count):
    return [(ACQUIRE, (key_in(1),), (b"%d" % number,)) for number in range(count)]


def test_so_many_requests_are_written_before_an_answer_is_read():
    port = Port(Nodes(run=b"done"))
    answers = run_blocking(port.run_together(requests(FAN_MAX * 2 + 1), now() + SOON))
    assert answers == [b"done"] * (FAN_MAX * 2 + 1)
    assert port.io.written == [FAN_MAX, FAN_MAX, 1]


def test_a_group_whose_node_cannot_be_reached_is_broken_and_the_others_are_not():
    port = Port(Nodes(run=b"done"))
    port.slots.owners[2] = B
    port.io.refused[B] = ServerUnreachable("refused", code="REFUSED")
    there = [(ACQUIRE, (key_in(2),), ())]
    lost, done = run_blocking(port.run_on_nodes([there, requests(2)], now() + SOON))
    assert isinstance(lost[0], NoReply)
    assert done == [b"done", b"done"]
    assert port.slots.doubtful


def test_an_answer_that_does_not_count_by_itself_leaves_time_to_confirm_it():
    limits = []

    class Slow(Nodes):
        async def exchange(self, asks, latest, limit):
            limits.append(limit() - now())
            await super().exchange(asks, latest, limit)
            limits.append(limit() - now())

    port = Port(Slow(run=b"done", command=error(f"MOVED {slot(key_in(1))} a:1")))
    port.slots.master_check._at.clear()
    assert run_blocking(port.run_together(requests(1), now() + 1.0)) == [b"done"]
    assert limits[1] < 0.8 < limits[0]
    assert run_blocking(port.run_together(requests(1), now() + 1.0)) == [b"done"]
    assert limits[3] > 0.8


def pools(*ends):
    """Return a pool for each socket, which has a connection that is idle, or opens one for None."""

    def pool(end):
        mine = Pool(lambda *_: None, lambda *_: None)
        if end is not None:
            mine.free.append(Connection(end, lambda *_: None))
            mine.free[0].asked_at = now() + SOON  # used just now: what is there is its answer
        return mine

    return [pool(end) for end in ends]


def batch(node, count):
    asked = Batch(requests(count), lambda _node, _asked_at: True)
    asked.node = node
    return asked


def test_a_server_that_is_silent_or_does_not_open_a_connection_holds_up_no_other(monkeypatch):
    """What it was asked has no reply, and its connection, which still may bring one, is closed."""
    pairs = [socket.socketpair() for _ in range(2)]
    several = BlockingSeveral()
    several.trips = RoundTrips()
    places = pools(pairs[0][0], pairs[1][0], None)
    several.pool_of = places.__getitem__
    released = threading.Event()
    monkeypatch.setattr(places[2], "_open", lambda _until, _pushed: released.wait(SOON))
    asks = [batch(number, count) for number, count in enumerate((3, 1, 1))]
    silent = places[1].free[0]
    pairs[0][1].sendall(b"+one\r\n+two\r\n-MOVED 1 b:2\r\n")
    until = now() + 0.2
    try:
        run_blocking(several.exchange(asks, until, lambda: until))
        assert [str(each) for each in asks[0].replies] == ["b'one'", "b'two'", "MOVED 1 b:2"]
        assert isinstance(asks[0].replies[2], ReplyError)
        assert [each.error.sent for each in asks[1:]] == [True, False]
        assert asks[1].undo_connection is silent
        assert not silent.sound
        several.put_back(asks)
        assert [len(each.free) for each in places] == [1, 0, 0]
    finally:
        released.set()
        for end in (end for pair in pairs for end in pair):
            end.close()


# --- slots ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 8191, 16383])
def test_a_tag_is_found_for_every_slot(number):
    slots._pairs.cache_clear()
    assert len(tag_in(number)) == 4
    assert slot(tag_in(number)) == slot(key_in(number)) == number


@pytest.mark.parametrize("lost", ["gone", "unsound"])
def test_a_waiter_that_lost_its_connection_gets_no_reply(lost):
    """Another connection would not hear what comes for it."""
    nodes, mine = Nodes(run=b"never"), waiter()
    port = Port(nodes)
    run_blocking(port.open(mine, now() + SOON))
    if lost == "gone":
        mine.origin = None
    else:
        mine.origin.sound = False
    nodes.asked.clear()
    with pytest.raises(NoReply, match="lost") as refused:
        run_blocking(port.run(b"packed", mine.key, now() + SOON, mine))
    assert not refused.value.sent
    assert nodes.asked == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_tls_reaches_every_node_with_the_url_s_user_and_options(asynchronous):
    url = "rediss+cluster://u:pw@h1,h2:7000?ssl_cert_reqs=none"
    source = from_url(url, asynchronous=asynchronous)
    assert source.seeds == (NodeAddress("h1", 6379), NodeAddress("h2", 7000))
    node = source.at(NodeAddress("h3", 7001))
    assert (node.settings["host"], node.settings["port"]) == ("h3", 7001)
    assert (node.settings["username"], node.settings["password"]) == ("u", "pw")
    assert node.settings["ssl_cert_reqs"] == "none"
    assert "pw" not in source.label
