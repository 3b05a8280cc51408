"""From a URL or a RedisCluster client to the nodes of a Cluster."""

import asyncio
import contextlib
import subprocess

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

import fencelock
from fencelock._core.keys import slot
from fencelock._io.sources.resolve import resolve
from fencelock._io.wire import ReplyError, server_error
from fencelock._topology.slots import NodeAddress, SlotMap, in_slot, key_in, tag_in
from tests.faults.proxy import Proxy
from tests.faults.world import Threads, View, spawn, wait_until
from tests.servers import Server, binaries
from tests.tls import certificate
from tests.topologies.cluster import free_port

NODES = [NodeAddress("10.0.0.1", 7000), NodeAddress("10.0.0.2", 7000)]
REPLY = [
    [0, 8191, [b"10.0.0.1", 7000, b"a", []], [b"", 7001, b"b", []]],
    [8192, 16383, [b"10.0.0.2", 7000, b"c", []], [b"?", 7001, b"d", []]],
]
RULES = (
    "~{p}* resetchannels &{p}* -@all +hello +auth +client|setname +evalsha +eval +time +get +set "
)
RULES += (
    "+del +exists +pexpire +pttl +type +sadd +zadd +zrange +zcard +zrank +zscore +zpopmin +zrem "
)
RULES += "+zremrangebyscore +publish +subscribe +cluster|slots +cluster|myid +asking "
RULES += "+pubsub|numsub +pubsub|shardnumsub +spublish +ssubscribe"


@pytest.mark.parametrize(
    ("url", "seeds"),
    [
        ("redis+cluster://h", ["h:6379"]),
        ("valkey+cluster://h1:1,h2:2", ["h1:1", "h2:2"]),
        ("redis+cluster://u:p%40@h1:1,[::1]:2/0", ["h1:1", "[::1]:2"]),
    ],
)
def test_a_url_names_nodes_to_begin_with(url, seeds):
    source = resolve(url, asynchronous=False)
    assert [str(node) for node in source.seeds] == seeds
    assert "p@" not in source.label
    assert "p%40" not in source.label


@pytest.mark.parametrize("url", ["redis+cluster://", "redis+cluster://h:x", "redis+cluster://h/1"])
def test_a_url_that_cannot_be_is_refused(url):
    with pytest.raises(ValueError, match="Cluster"):
        fencelock.Client(url)


def test_the_map_is_what_the_last_one_said():
    slots = SlotMap(NODES[:1])
    slots.learn(REPLY, NODES[0])
    assert [slots.owners[0], slots.owners[8191], slots.owners[8192]] == [NODES[0], *NODES]
    assert slots.masters == tuple(NODES)
    slots.invalidate(NODES[0])
    assert list(slots.sources())[-1] == NODES[0]
    assert NodeAddress("10.0.0.1", 7001) in slots.sources()
    assert slots.sure(key_in(1)) is None


@pytest.mark.parametrize(
    "beside", [{b"ip": b"10.0.0.3"}, [b"ip", b"10.0.0.3"]], ids=["map", "list"]
)
def test_a_node_whose_host_name_was_not_announced_is_reached_by_its_ip(beside):
    slots = SlotMap(NODES[:1])
    slots.learn([[0, 16383, [b"?", 7003, b"e", beside]]], NODES[0])
    named = NodeAddress("10.0.0.3", 7003)
    assert slots.masters == (named,)
    moved = slots.redirect(server_error(ReplyError("MOVED 1 ?:7003")))
    assert moved.node == named


def test_addresses_are_remapped_wherever_a_node_names_them():
    slots = SlotMap(NODES[:1], lambda node: NodeAddress(f"nat-{node.host}", node.port + 1))
    slots.learn(REPLY, NODES[0])
    assert slots.owners[0] == NodeAddress("nat-10.0.0.1", 7001)
    assert NodeAddress("nat-10.0.0.1", 7002) in slots.sources(), (
        "a replica, told by a node that names no host"
    )
    moved = server_error(ReplyError("MOVED 1 10.0.0.3:7000"))
    assert slots.redirect(moved).node == slots.owners[1] == NodeAddress("nat-10.0.0.3", 7001)


@pytest.mark.parametrize("library", [redis, valkey], ids=["redis-py", "valkey-py"])
def test_a_clients_address_remap_is_used(shared, connect, face, library, name):
    """Behind NAT nodes name addresses that cannot be reached; here all goes through proxies."""
    with contextlib.ExitStack() as open_:
        gates = {node.port: open_.enter_context(Proxy(node)) for node in shared.nodes}

        def remap(address):
            host, port = address
            return host, gates[port].port if port in gates else port

        module = library if face is Threads else library.asyncio
        make = getattr(module, "RedisCluster", None) or module.ValkeyCluster
        theirs = make(host="127.0.0.1", port=shared.nodes[0].port, address_remap=remap)
        client = connect(theirs)
        for number in range(8):
            lock = client.lock(f"{name}-{number}")
            assert lock.acquire()
            lock.release()
        assert sum(gate.seen["acquire"] for gate in gates.values()) >= 8
        client.close()
        if face is Threads:
            theirs.close()
        else:
            asyncio.run(theirs.aclose())


@pytest.mark.parametrize("number", [0, 1, 8191, 16383])
def test_every_slot_has_a_channel_and_a_key(number):
    assert slot(tag_in(number)) == slot(key_in(number)) == number
    assert slot(in_slot(b"fencelock:@ab.1", number)) == number
    assert in_slot(b"{tag}:@ab.1", number) is None
    assert in_slot(b"{tag}:@ab.1", slot(b"tag")).startswith(b"{tag}:@ab.1")
    assert in_slot(b"a{b@ab.1", number) is None  # its first brace decides


@pytest.mark.parametrize("library", [redis, valkey], ids=["redis-py", "valkey-py"])
def test_a_cluster_client_is_a_source(shared, connect, face, library, name):
    view = View(shared, name)
    module = library if face is Threads else library.asyncio
    make = getattr(module, "RedisCluster", None) or module.ValkeyCluster
    theirs = make(host="127.0.0.1", port=shared.nodes[0].port)
    holder, waiter = (connect(theirs).lock(name) for _ in range(2))
    assert holder.acquire()
    job = spawn(waiter.acquire)
    view.until_waiting(1)
    holder.release()
    assert job.result(20)
    waiter.release()
    if face is Threads:
        theirs.close()
    else:
        asyncio.run(theirs.aclose())


def test_a_user_with_the_least_rights(shared, connect, name, view):
    """Password, one prefix, and the commands that are needed."""
    rules = RULES.format(p="fencelock:").split()
    for node in shared.nodes:
        node.command("ACL", "SETUSER", "app", "reset", "on", ">s3cr:t/é", *rules)
    source = shared.url.replace("://", "://app:s3cr%3At%2F%C3%A9@")
    holder, waiter = (connect(source).lock(name, ttl=9) for _ in range(2))
    assert holder.acquire()
    job = spawn(waiter.acquire)
    view.until_waiting(1)
    holder.lease.renew()
    holder.release()
    assert job.result(20)
    waiter.release()


def test_a_user_without_a_password_logs_in_as_itself(shared, connect, name):
    source = shared.url.replace("://", "://open@")
    for node in shared.nodes:
        node.command("ACL", "DELUSER", "open")  # of the other face's test
    with pytest.raises(fencelock.ServerDenied):
        connect(source).lock(name).acquire(timeout=1)
    for node in shared.nodes:
        node.command("ACL", "SETUSER", "open", "on", "nopass", "~*", "&*", "+@all")
    lock = connect(source).lock(name)
    assert lock.acquire(timeout=5)
    lock.release()


def test_a_server_that_is_no_node_is_said(connect, name):
    with Server() as server:
        lock = connect(f"redis+cluster://127.0.0.1:{server.port}").lock(name)
        with pytest.raises(fencelock.ServerUnsuitable, match="use redis://"):
            lock.acquire()


def test_nobody_there_is_told_at_once(connect, name):
    lock = connect("redis+cluster://127.0.0.1:1,127.0.0.1:2", server_timeout=30).lock(name)
    with pytest.raises(fencelock.ServerUnreachable):
        lock.acquire()


def test_a_plain_client_of_one_node_is_told_how(shared, connect, name):
    key = View(shared, name).keys.lock
    stranger = next(node for node in shared.masters if node is not shared.owner(key))
    with pytest.raises(fencelock.ServerUnsuitable, match=r"redis\+cluster://"):
        connect(stranger.tcp_url).lock(name).acquire()


def test_a_wrong_password_is_tried_once(shared, connect, name):
    """Asking every node would lock the account."""
    begun = shared.commandstats().get("hello", 0)
    for node in shared.nodes:
        node.command("ACL", "SETUSER", "nobody", "on", ">right")
    lock = connect(shared.url.replace("://", "://nobody:wrong@")).lock(name)
    with pytest.raises(fencelock.ServerDenied):
        lock.acquire()
    assert shared.commandstats().get("hello", 0) - begun <= 1


def encrypted():
    """Return a server that was built with TLS."""
    for binary in binaries():
        told = subprocess.run(["ldd", binary.path], capture_output=True, check=False, text=True)
        if "libssl" in told.stdout:
            return binary
    return pytest.skip("no server here was built with TLS")


@pytest.fixture
def over_tls(tmp_path):
    """A Cluster of one node that speaks TLS: the node, its port, and the authority."""
    cert = certificate(tmp_path)
    kept = []
    port = free_port(kept)
    options = ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cluster", "yes"]
    options += ["--tls-cert-file", str(cert), "--tls-key-file", str(cert.parent / "key.pem")]
    options += ["--tls-ca-cert-file", str(cert), "--cluster-enabled", "yes"]
    try:
        with Server(encrypted(), args=options) as node:
            node.command("CLUSTER", "ADDSLOTS", *range(16384))
            node.command("CONFIG", "SET", "cluster-announce-ip", "127.0.0.1")
            wait_until(lambda: "state:ok" in node.command("CLUSTER", "INFO"), 10, "up")
            yield node, port, cert
    finally:
        for line in kept:
            line.close()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["url", "client"])
def test_tls(connect, face, name, form, over_tls):
    """The client's way to connect is cloned for every node."""
    node, port, cert = over_tls
    source = f"rediss+cluster://localhost:{port}/0?ssl_ca_certs={cert}"
    if form == "client":
        library = redis if face is Threads else redis.asyncio
        source = library.RedisCluster(
            host="127.0.0.1", port=port, ssl=True, ssl_ca_certs=str(cert), ssl_check_hostname=False
        )
    lock = connect(source).lock(name)
    assert lock.acquire()
    assert View(node, name).holder() == lock.lease.holder
    lock.release()
    if form == "client" and face is Threads:
        source.close()
