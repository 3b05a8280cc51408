"""The commands over a quorum of three servers, and what ``doctor`` says of one."""

import os
import signal

import pytest

from fencelock._core.keys import membership_key
from tests.cli.shell import Shell, alive, eventually, gone
from tests.topologies.quorum import Quorum

pytestmark = pytest.mark.slow


@pytest.fixture
def nodes():
    with Quorum(3) as running:
        yield running


@pytest.fixture
def shell(nodes, tmp_path):
    """Lend a shell whose server is the quorum."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("FENCELOCK_")}
    lent = Shell(tmp_path, env | {"FENCELOCK_URL": tcp(nodes), "FENCELOCK_EMBEDDED": "0"})
    yield lent
    lent.close()


def tcp(nodes, user=""):
    return " ".join(node.tcp_url.replace("://", f"://{user}") for node in nodes.nodes)


def examined(shell, *words):
    """Return the exit status and how each check of the whole ended, by what it is about."""
    result = shell("doctor", "--json", *words)
    told = result.json["checks"]
    return result.status, {each["what"]: each for each in told if not each["node"]}, told


def was_renewed(node):
    """Wait until the lease of ``a`` is renewed at a node."""
    left = []

    def rises():
        left.append(node.command("PTTL", "fencelock:a"))
        return len(left) > 1 and left[-1] > left[-2]

    eventually(rises, "a renewal")


def test_a_stopped_fencelock_does_not_keep_the_command_from_being_stopped(shell, nodes):
    """Each new deadline of a quorum's lease reaches the supervisor, too."""
    words, report = shell.reporter(handles="TERM")
    process = shell.start("run", "a", "--ttl", "2s", "--", *words)
    pid = report.up()
    was_renewed(nodes.nodes[0])
    assert alive(pid)
    process.send(signal.SIGSTOP)
    gone(pid)
    assert "SIGTERM" in report.words()
    process.send(signal.SIGCONT)
    assert process.end() == 76


def test_doctor_looks_at_every_node_and_at_the_whole(shell, nodes):
    status, whole, told = examined(shell)
    assert status == 0, told
    assert whole["majority"]["found"] == "3 of 3 nodes answer; 2 must"
    assert whole["votes"]["found"] == "3 of 3 nodes may vote"
    assert whole["independence"]["found"] == "3 of 3 nodes are on 127.0.0.1"
    versions = [each["node"] for each in told if each["what"] == "server"]
    assert versions == [f"redis://127.0.0.1:{node.port}/0" for node in nodes.nodes]
    kept = next(each for each in told if each["what"] == "persistence")
    assert kept["level"] == "OK"
    assert "no vote until" in kept["found"]
    headings = [
        line for line in shell("doctor").out.splitlines() if line in {*versions, "all together"}
    ]
    assert headings == [*versions, "all together"]


def test_doctor_tells_how_many_nodes_answer(shell, nodes):
    nodes.kill(0)
    status, whole, told = examined(shell)
    assert (status, whole["majority"]["level"]) == (1, "WARN")
    assert [
        each["level"] for each in told if each["node"].endswith(f":{nodes.nodes[0].port}/0")
    ] == ["FAIL"]
    nodes.kill(1)
    assert examined(shell)[1]["majority"]["level"] == "FAIL"


def know_one_another(shell, nodes):
    """Use the quorum until each node was told of all: one that answers late is asked again."""

    def voters():
        assert shell("run", "first", "--ttl", "2s", "--", "true").status == 0
        ids = [node.info("server")["run_id"] for node in nodes.nodes]
        rosters = [node.command("HGETALL", membership_key("fencelock:")) for node in nodes.nodes]
        return all(each in membership for membership in rosters for each in ids)

    eventually(voters, "that every node remembers all of them")


def restart(node):
    """Kill a node that keeps nothing on disk, and start it again."""
    node.kill()
    node.start()


def test_doctor_names_the_node_that_waits_for_its_vote(shell, nodes):
    know_one_another(shell, nodes)
    assert shell("acquire", "a", "--ttl", "1h").status == 0
    restart(nodes.nodes[1])
    one = examined(shell)[1]["votes"]
    assert one["level"] == "WARN"
    assert one["found"].startswith(f"redis://127.0.0.1:{nodes.nodes[1].port}/0 was restarted")


def test_doctor_tells_when_two_nodes_are_one_server(shell, nodes):
    first, second = nodes.nodes[0], nodes.nodes[1]
    urls = f"{first.tcp_url} redis://localhost:{first.port}/0 {second.tcp_url}"
    status, whole, _ = examined(shell, "--url", urls)
    assert (status, whole["independence"]["level"]) == (1, "FAIL")
    assert "the same server" in whole["independence"]["found"]


def test_the_rule_that_doctor_prints_for_a_quorum_is_enough(shell, nodes):
    rule = shell("doctor", "--json").json["acl"].replace(">PASSWORD", ">pw").split()
    for node in nodes.nodes:
        node.command(*rule)
    where = ("--url", tcp(nodes, "locker:pw@"))
    assert shell("run", "a", *where, "--", "true").status == 0
    assert examined(shell, *where)[0] == 0
    nodes.nodes[2].command("ACL", "SETUSER", "locker", "-hgetall", "-info")
    status, _, told = examined(shell, *where)
    voting = [each["found"] for each in told if each["what"] == "voting"]
    assert status == 1
    assert voting == ["this user lacks +info +hgetall, which show restarts of nodes"]


@pytest.mark.parametrize("dead", [False, True])
def test_a_script_renews_and_releases_what_it_acquired(shell, nodes, dead):
    holder = shell("acquire", "a", "--ttl", "5s", "--json").json["holder"]
    known = ("--holder", holder)
    if dead:
        nodes.kill(2)
    assert shell("renew", "a", "--holder", "another").status == 76
    assert shell("renew", "a", *known, "--ttl", "1h").status == 0
    assert shell("show", "a", "--json").json["lease"] > 3000
    assert shell("release", "a", "--holder", "another").status == 76
    assert shell("release", "a", *known).status == 0
    assert not shell("show", "a", "--json").json["held"]
    assert shell("release", "a", *known).status == 76
    nodes.kill(1)
    if dead:
        assert shell("release", "a", *known).status == 69


@pytest.mark.parametrize(
    "words",
    [
        ["once", "a", "--within", "1m"],
        ["elect", "a"],
        ["run", "a", "--slots", "2"],
        ["run", "a", "--shared"],
        ["run", "a", "--exclusive"],
    ],
    ids=" ".join,
)
def test_what_a_quorum_cannot_do_is_refused_before_the_command_runs(shell, nodes, words, tmp_path):
    """Before any node is asked, too."""
    nodes.kill(0, 1, 2)
    result = shell(*words, "--", "touch", tmp_path / "ran")
    assert (result.status, "does not work over a quorum" in result.err) == (64, True)
    assert not (tmp_path / "ran").exists()
