"""What the dashboard makes of the statuses of locks, and what its access allow."""

import json

import pytest

from fencelock.dashboard import rows
from fencelock.dashboard.access import (
    Access,
    checked_host,
    checked_token,
    is_loopback,
    is_wildcard,
)
from fencelock.dashboard.board import Board, Look
from fencelock.dashboard.graph import ALONE_MAX, MEMBERS_MAX, NODES_MAX, Graph
from fencelock.dashboard.recent import (
    GAP_MAX,
    KEPT_SECONDS,
    LOCKS_MAX,
    TENURES_MAX,
    Recent,
    holders_of,
    with_history,
)
from fencelock.status import HistoryEntry, HolderStatus, LockStatus, WaiterStatus

NOW = 1_795_000_000.0


def holder(unit, *, fence=1, permits=1, since=NOW - 10, remaining=20.0):
    return HolderStatus(
        "h",
        1,
        unit,
        fence=fence,
        permits=permits,
        since=since,
        held_for=NOW - since,
        remaining=remaining,
    )


def waiter(unit, *, place=1, permits=0, since=NOW - 5):
    return WaiterStatus(place, "h", 1, unit, permits=permits, since=since, waited=NOW - since)


def lock(name, holders=(), waiters=(), **more):
    holders, waiters = tuple(map(held, holders)), tuple(map(waits, waiters))
    given = {
        "held": bool(holders),
        "holders": holders,
        "holding": len(holders),
        "waiters": waiters,
        "waiting": len(waiters),
        "remaining": holders[0].remaining if holders else None,
    }
    return LockStatus(name, **(given | more))


def held(one):
    return holder(one) if isinstance(one, str) else one


def waits(one):
    return waiter(one) if isinstance(one, str) else one


def ring(*locks):
    return {each.unit for each in Graph(locks).ring}


# --- who blocks whom ------------------------------------------------------------------------------


def test_two_that_wait_for_each_other_are_a_cycle():
    locks = lock("a", ["x"], ["y"]), lock("b", ["y"], ["x", "z"])

    assert ring(*locks) == {"x", "y"}
    assert Graph(locks).locks_in_cycles == {"a", "b"}


def test_a_chain_is_no_cycle():
    assert ring(lock("a", ["x"], ["y"]), lock("b", ["y"], ["z"])) == set()


def test_a_way_between_two_cycles_is_in_none():
    one = lock("a", ["1"], ["2"]), lock("b", ["2"], ["1"])
    two = lock("c", ["3"], ["4"]), lock("d", ["4"], ["3"])
    between = lock("e", ["1"], ["m"]), lock("f", ["m"], ["3"])

    assert ring(*one, *two, *between) == {"1", "2", "3", "4"}


def test_the_same_name_in_another_process_is_another_client():
    elsewhere = WaiterStatus(1, "h", 2, "x", since=NOW)

    assert ring(lock("a", ["x"], ["y"]), lock("b", ["y"], [elsewhere])) == set()


def test_a_semaphore_makes_no_cycle_unless_it_has_one_permit():
    a = lock("a", ["x"], ["y"])
    wide = lock("b", ["y", "other"], ["x"], kind="semaphore", limit=2, taken=2)
    narrow = lock("b", ["y"], ["x"], kind="semaphore", limit=1, taken=1)

    assert ring(a, wide) == set()
    assert ring(a, narrow) == {"x", "y"}


def test_a_writer_waits_for_every_reader():
    readers = lock("b", ["y", "other"], [waiter("x", permits=9)], kind="rwlock", limit=9)

    assert ring(lock("a", ["x"], ["y"]), readers) == {"x", "y"}


def test_waiters_of_a_kept_lock_wait_for_no_client():
    assert Graph([lock("a", ["x"], ["y"], held=False, kept=True)]).waits == []


def test_blockers_count_those_behind_their_waiters():
    locks = [lock("a", ["x"], ["y"]), lock("b", ["y"], ["z1", "z2"])]

    found = {row["unit"]: (row["direct"], row["all"]) for row in Graph(locks).blockers(NOW)}

    assert found == {"x": (1, 3), "y": (2, 2)}


def test_blockers_with_one_name_are_told_apart():
    one, two = (holder("worker")._replace(unit_id=each) for each in ("1", "2"))
    found = Graph([lock("a", [one], ["y"]), lock("b", [two], ["z"])]).blockers(NOW)

    assert {(row["unit"], row["id"], *row["holds"]) for row in found} == {
        ("worker", "1", "a"),
        ("worker", "2", "b"),
    }


def test_the_drawing_of_a_lock_has_what_it_has_to_do_with():
    chain = lock("a", ["x"], ["y"]), lock("b", ["y"], ["z"]), lock("c", ["z"], ["w"])
    apart = lock("d", ["p"], ["q"])
    beside = lock("e", ["x"], ["v"])  # behind the same holder

    graph = Graph([*chain, apart, beside])
    drawn = graph.drawing("b")

    assert {node["unit"] for node in drawn["nodes"]} == {"w", "z", "y", "x", "v"}
    assert {edge["name"] for edge in graph.drawing("d")["edges"]} == {"d"}
    assert graph.drawing("free")["nodes"] == []


def test_the_costliest_blocker_comes_first():
    long = lock("a", ["x"], [waiter("w", since=NOW - 100)])
    short = lock("b", ["y"], [waiter("v", since=NOW - 1)])

    found = Graph([short, long]).blockers(NOW)

    assert [(row["unit"], row["seconds"]) for row in found] == [("x", 100.0), ("y", 1.0)]


def test_those_for_whom_a_waiter_stands_are_counted_wherever_it_is():
    """Of a client that names a hundred waiters the last stands for the others."""
    stands = [waiter(f"w{n}") for n in range(ALONE_MAX)] + [waiter("last")._replace(others=49)]
    graph = Graph([lock("a", ["x"], stands), lock("b", [waiter("w1").unit], ["y"])])
    (found,) = (row for row in graph.blockers(NOW) if row["unit"] == "x")
    assert (found["direct"], found["all"], found["seconds"]) == (54, 55, 55 * 5.0)
    assert [node["all"] for node in graph.drawing()["nodes"] if node.get("unit") == "x"] == [55]
    crowd = Graph([lock("a", ["x"], stands)]).drawing()["nodes"][0]
    assert crowd["crowd"] == 54


def test_a_holder_of_several_locks_has_the_label_of_the_one_that_most_wait_for():
    first, other = (holder("x")._replace(label=label) for label in ("export", "idle"))
    (found,) = Graph([lock("a", [first], ["y"]), lock("b", [other])]).blockers(NOW)
    assert found["label"] == "export"


def test_many_waiters_of_a_client_are_drawn_as_one_box_that_opens():
    clients = [waiter(f"w{n}")._replace(pid=n % 2) for n in range(377)]
    alone = [waiter(f"a{n}")._replace(pid=10 + n) for n in range(3)]
    drawn = Graph([lock("a", ["x"], [*clients, *alone])]).drawing()

    boxes = [node for node in drawn["nodes"] if node["crowd"]]
    assert [node["crowd"] for node in boxes] == [189, 188, 3]
    assert [node["client"] and node["client"]["pid"] for node in boxes] == [0, 1, None]
    assert [len(node["members"]) for node in boxes] == [MEMBERS_MAX, MEMBERS_MAX, 3]
    assert len(drawn["edges"]) == 3


def test_a_waiter_that_blocks_others_stands_out_of_a_crowd():
    crowd = [f"w{n}" for n in range(20)]

    drawn = Graph([lock("a", ["x"], [*crowd, "y"]), lock("b", ["y"], ["z"])]).drawing()

    assert {node.get("unit") for node in drawn["nodes"]} == {"x", "y", "z", None}
    assert sum(node["crowd"] for node in drawn["nodes"]) == 20


def test_a_drawing_has_an_end_and_says_what_it_leaves_out():
    locks = [lock(f"n{n}", [f"h{n}"], [f"w{n}"]) for n in range(NODES_MAX)]

    drawn = Graph([*locks, lock("a", ["x"], ["y"]), lock("b", ["y"], ["x"])]).drawing()

    assert NODES_MAX <= len(drawn["nodes"]) <= NODES_MAX + 1
    assert drawn["left_out"] == NODES_MAX - (NODES_MAX - 2) // 2
    assert sum(node["cycle"] for node in drawn["nodes"]) == 2


def test_a_program_that_is_no_client_blocks_too():
    row = Graph([lock("a", [], ["w"], held=True)]).blockers(NOW)[0]

    assert row["foreign"]
    assert row["holds"] == ["a"]


def test_the_numbers_are_of_all_locks_and_all_programs():
    locks = [
        lock("a", ["h1", "h2"], ["w1"]),
        lock("b", [], ["w2"], held=True),
        lock("c", kept=True),
    ]
    samples = Board(Look(locks, [], NOW), {}).samples()
    assert samples["fencelock_server_locks"] == {"state=held": 2, "state=kept": 1, "state=free": 0}
    assert samples["fencelock_server_holders"] == {"": 3}
    assert samples["fencelock_server_waiters"] == {"": 2}


# --- rows -----------------------------------------------------------------------------------------


def test_a_row_has_instants_so_that_it_is_the_same_a_second_later():
    first = lock("a", [holder("x", since=NOW - 10, remaining=20.0)], ["w"])
    second = lock("a", [holder("x", since=NOW - 10, remaining=19.0)], ["w"])

    assert rows.row(first, NOW) == rows.row(second, NOW + 1)


def test_the_time_of_a_look_is_the_servers():
    assert rows.instant([lock("a", ["x"], ["w"])], 0.0) == pytest.approx(NOW)
    assert rows.instant([lock("a")], 7.0) == 7.0


@pytest.mark.parametrize(
    ("status", "state", "tone"),
    [
        (lock("a", ["x"]), "held", "held"),
        (lock("a", ["x"], held=False, kept=True), "kept", "kept"),
        (lock("a"), "free", "free"),
        (lock("a", ["x"], kind="semaphore", limit=3, taken=2), "2 of 3", "held"),
        (lock("a", ["x"], kind="rwlock", limit=9, taken=2), "read by 2", "held"),
        (lock("a", ["x"], kind="rwlock", limit=9, taken=9), "written", "held"),
    ],
)
def test_the_state_of_a_lock_in_a_word(status, state, tone):
    row = rows.row(status, NOW)

    assert (row["state"], row["tone"]) == (state, tone)


def test_a_lone_surrogate_in_a_name_can_be_sent():
    row = rows.row(lock("bad \ud800 name", ["x"]), NOW)

    assert json.loads(json.dumps(row).encode())["name"] == "bad \ud800 name"


# --- the recent past ------------------------------------------------------------------------------


def test_a_tenure_ends_when_another_begins():
    recent = Recent()
    recent.look([lock("a", [holder("x", fence=1)])], NOW)
    recent.look([lock("a", [holder("y", fence=2, since=NOW + 1)])], NOW + 1)

    tenures = recent.of("a", NOW + 2)["tenures"]

    assert [(t["unit"], t["fence"], t["until"]) for t in tenures] == [
        ("x", 1, NOW + 1),
        ("y", 2, None),
    ]


def test_a_tenure_ends_when_the_lock_is_gone():
    recent = Recent()
    recent.look([lock("a", ["x"], ["w"])], NOW)
    recent.look([], NOW + 1)

    past = recent.of("a", NOW + 2)

    assert past["tenures"][0]["until"] == NOW + 1
    assert past["samples"] == [(NOW, 1), (NOW + 1, 0)]


def test_the_same_number_of_waiters_is_noted_once():
    recent = Recent()
    for second in range(5):
        recent.look([lock("a", ["x"], ["w"] * (1 + second // 3))], NOW + second)

    assert recent.of("a", NOW + 5)["samples"] == [(NOW, 1), (NOW + 3, 2)]


def test_time_without_a_look_is_told_and_no_tenure_ends_within_it():
    recent = Recent()
    recent.look([lock("a", ["x"]), lock("b", ["y"])], NOW)
    recent.look([lock("a", ["x"]), lock("b", ["y"])], NOW + 1)
    recent.look([lock("a", ["z"])], NOW + 100)

    first, after = recent.of("a", NOW + 100), recent.of("b", NOW + 100)

    assert first["unseen"] == after["unseen"] == [(0.0, NOW), (NOW + 1, NOW + 100)]
    assert [each["until"] for each in first["tenures"]] == [NOW + 1, None]
    assert [each["until"] for each in after["tenures"]] == [NOW + 1]


def test_the_history_fills_the_times_that_no_look_saw():
    waits = [
        HistoryEntry("1", NOW + 40, "wait", "a", seconds=20.0),
        HistoryEntry("2", NOW + 35, "wait", "a", seconds=10.0),
        HistoryEntry("3", NOW + 5, "wait", "a", seconds=3.0),  # a look saw that
        HistoryEntry("4", NOW + 70, "wait", "a", seconds=15.0),  # it went on when a look came
    ]
    samples = [(NOW, 1), (NOW + 60, 2)]
    gap = (NOW + 10, NOW + 60)
    told, dark = with_history(samples, [gap], waits)

    assert [(time - NOW, number) for time, number in dict(told).items()] == [
        (0, 1),
        (10, 0),
        (20, 1),
        (25, 2),
        (35, 1),
        (40, 0),
        (55, 1),
        (60, 2),
    ]
    assert dark == []
    assert with_history(samples, [gap], []) == (samples, [gap])


def test_the_history_names_holders_that_no_look_saw():
    def held(fence, since, held_for):
        return holder("x", fence=fence, since=NOW + since)._replace(held_for=held_for)

    waits = [
        HistoryEntry("1", NOW + 40, "wait", "a", seconds=20.0, held_by=held(2, 15, 10.0)),
        HistoryEntry(
            *("2", NOW + 50, "wait", "a"),
            seconds=30.0,
            first_held_by=held(2, 15, 5.0),
            held_by=held(3, 26, 14.0),
        ),
        HistoryEntry("3", NOW + 5, "wait", "a", seconds=3.0, held_by=held(1, 1, 3.0)),
        HistoryEntry("4", NOW + 70, "wait", "a", seconds=3.0, held_by=held(9, 66, 3.0)),
    ]
    seen = [{"fence": 1, "since": NOW + 1, "until": NOW + 8}]
    told = holders_of(seen, [(NOW + 10, NOW + 60)], waits)

    assert [(each["fence"], each["since"] - NOW, each["until"] - NOW) for each in told] == [
        (1, 1, 8),
        (2, 15, 25),
        (3, 26, 40),
    ]


def test_what_is_long_past_is_forgotten():
    recent = Recent()
    recent.look([lock("a", ["x"])], NOW)
    recent.look([], NOW + KEPT_SECONDS + 1)

    assert recent.of("a", NOW + KEPT_SECONDS + 1)["tenures"] == []


def test_the_past_is_bounded_for_one_lock_and_for_all():
    recent = Recent()
    for fence in range(TENURES_MAX + 5):
        recent.look([lock("a", [holder("x", fence=fence)])], NOW + fence / 100)
    assert len(recent.of("a", NOW + 3)["tenures"]) == TENURES_MAX

    recent.look([lock(f"n{n}") for n in range(LOCKS_MAX + 1)], NOW + 3)

    assert len(recent._pasts) == LOCKS_MAX
    assert recent.of("a", NOW + 3)["tenures"] == []  # the first to go


def test_a_holder_is_charged_with_the_time_of_each_that_waits():
    recent = Recent()
    for second in range(3):
        recent.look([lock("a", ["x"], ["v", "w"]), lock("b", ["y"])], NOW + second)

    (cost,) = recent.costs(NOW + 3)

    assert (cost["seconds"], cost["names"]) == (4.0, ["a"])


def test_time_in_which_no_browser_asked_is_charged_to_no_holder():
    recent = Recent()
    recent.look([lock("a", ["x"], ["w"])], NOW)
    recent.look([lock("a", ["x"], ["w"])], NOW + GAP_MAX + 1)

    assert recent.costs(NOW + GAP_MAX + 1) == []


def test_costs_end_after_an_hour():
    recent = Recent()
    for second in range(2):
        recent.look([lock("a", ["x"], ["w"])], NOW + second)

    assert recent.costs(NOW + 3500) != []
    assert recent.costs(NOW + 3700) == []


# --- access -------------------------------------------------------------------------------------

ONE, TWO = "a-token-of-enough-letters", "another-token-of-letters"


def test_a_token_that_is_no_ascii_opens_nothing():
    assert not Access(token=ONE).opens_revoking("ä" * 20)


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda *pair: compared.append(pair) or False)

    assert not Access(read_token=ONE, token=TWO).opens_reading("given")
    assert compared == [(b"given", ONE.encode()), (b"given", TWO.encode())]


@pytest.mark.parametrize(
    "token",
    ["short", "has a space in its middle", "tab\tin the token......", "ünïcode-token-letters"],
)
def test_a_token_that_cannot_be_right_is_refused(token):
    with pytest.raises(ValueError, match="the token must"):
        checked_token("the token", token)


@pytest.mark.parametrize("name", ["host:80", "http://host", "a/b", "", "a b", "host.", "user@host"])
def test_a_host_name_that_cannot_be_right_is_refused(name):
    with pytest.raises(ValueError, match="without port"):
        checked_host(name)


def test_host_names_as_a_browser_sends_them():
    assert [*map(checked_host, ("Locks.Example", "[::1]", "10.0.0.1"))] == [
        "locks.example",
        "::1",
        "10.0.0.1",
    ]


def test_which_addresses_only_this_machine_reaches():
    hosts = "127.0.0.1", "localhost", "::1", "0.0.0.0", "::", "", "10.0.0.1", "example"

    assert [host for host in hosts if is_loopback(host)] == ["127.0.0.1", "localhost", "::1"]
    assert [host for host in hosts if is_wildcard(host)] == ["0.0.0.0", "::", ""]
