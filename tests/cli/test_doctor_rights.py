"""``fencelock doctor`` and rights: what a user lacks, and whether the printed rule is enough."""

from __future__ import annotations

import pytest

from tests.cli.shell import eventually
from tests.cli.test_doctor import checks, found, url_of  # noqa: F401 - a fixture
from tests.servers import Server, binaries


def test_missing_rights(shell, own_server):
    """Known without any right but EVAL's; several at once; keys and channels as patterns."""
    for changes, lacks in (
        (("-zpopmin", "-hset"), "+zpopmin +hset"),
        (("resetkeys", "~other:*"), "~fencelock:*"),
        (("resetchannels", "&other:*"), "&fencelock:*"),
    ):
        own_server.command("ACL", "SETUSER", "guest", "reset", "on", ">pw", "+@all", "allkeys")
        own_server.command("ACL", "SETUSER", "guest", "allchannels", *changes)
        url = f"redis://guest:pw@127.0.0.1:{own_server.port}/0"
        level, told, change = found(shell, "permissions", "--url", url)
        assert level == "FAIL"
        assert f" lacks {lacks}" in told or lacks in told.replace("PREFIX", "fencelock:")
        assert "rule below" in change


@pytest.mark.parametrize("binary", binaries(), ids=str)
def test_the_rule_that_is_printed_is_enough(shell, binary):
    """For all commands but those that are said to need more, which then is enough."""
    with Server(binary) as server:
        where = ("--url", f"redis://locker:pw@127.0.0.1:{server.port}/0", "--prefix", "my app:")
        rules = shell("doctor", "--json", "--url", server.url, *where[2:]).json
        server.command(*rules["acl"].replace(">PASSWORD", ">pw").split())
        result = shell("acquire", "x", *where, "--json")
        assert result.status == 0, result
        waiter = shell.start("run", "x", *where, "--", "sh", "-c", "echo run")
        eventually(lambda: shell("show", "x", *where, "--json").json["waiting"] == 1, "the waiter")
        holder = result.json["holder"]
        assert shell("renew", "x", *where, "--holder", holder).status == 0
        assert shell("revoke", "x", *where, "--reason", "r", "--yes").status == 0
        assert waiter.end() == 0, waiter.err
        assert shell("wait", "x", *where, "-w", "5s").status == 0
        status, told = checks(shell, *where)
        assert (status, told["permissions"]["level"]) == (0, "OK")
        assert told["eviction"]["change"] == "grant this user +info"
        assert shell("ls", *where).status == 77
        assert "+scan" in shell("ls", *where).err
        known = [right for use, right in rules["acl_more"].items() if use != "a Cluster"]
        for more in known:  # 6.2 has no sharded channels
            server.command("ACL", "SETUSER", "locker", *more.split())
        assert shell("ls", "--all", "--json", *where).json[0]["name"] == "x"
        assert found(shell, "eviction", *where)[0] == "OK"
        where = (*where[:2], "--prefix", "other:")
        assert shell("acquire", "x", *where).status == 77
