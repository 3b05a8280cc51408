"""Defects in ports, transports, faces and errors: where real sockets, threads and servers matter.

Those of scripts and flows are sown beside the explorer's scenarios (``tests/flows``), which finds
them in the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sown:
    """One text for another in a file of ``src/fencelock``, and the test that must fail then.

    With a kind of object as ``daily`` that test must be one of those that run daily.
    """

    name: str
    file: str
    old: str
    new: str
    check: str
    breaks: str
    daily: str = ""


SOWN = (
    Sown(
        "a reply without a waiting request is given to the next request",
        "_io/connection_asyncio.py",
        "                slot, _, _ = self._slots.popleft()\n"
        "                if not slot.done():\n"
        "                    slot.set_result(message)\n",
        "                slot, _, _ = self._slots.popleft()\n"
        "                while slot.done() and self._slots:\n"
        "                    slot, _, _ = self._slots.popleft()\n"
        "                if not slot.done():\n"
        "                    slot.set_result(message)\n",
        "tests/tasks/test_cancellation.py::test_gathered_cancellations_do_not_mix_up_answers",
        "I9",
        daily="lock",
    ),
    Sown(
        "a connection with an unread reply is used again",
        "_io/pool_blocking.py",
        "        if not connection.sound or connection.owed:\n",
        "        if not connection.sound:\n",
        "tests/threads/test_pool.py::test_a_connection_with_an_unread_answer_is_not_kept",
        "I9",
        daily="lock",
    ),
    Sown(
        "a script that the server forgot is an error",
        "_io/wire.py",
        '    return str(error).startswith("NOSCRIPT")\n',
        "    return False\n",
        "tests/conformance/test_errors.py::test_forgotten_scripts",
        "I12",
        daily="lock",
    ),
    Sown(
        "a reply is awaited beyond the caller's timeout",
        "_core/retry.py",
        "    return min(latest, max(give_up_at, now + ANSWER_SECONDS_MIN))\n",
        "    return latest\n",
        "tests/faults/test_timeouts.py::test_a_timeout_of_nothing_on_a_frozen_server",
        "I13",
        daily="lock",
    ),
    Sown(
        "a server's error is a plain no",
        "_core/lock/acquire.py",
        "events.failed(request, error)\n        raise\n    except BaseException as error:",
        "return None\n    except BaseException as error:",
        "tests/conformance/test_exclusive.py::test_trouble_while_trying_is_raised",
        "I12",
        daily="lock",
    ),
    Sown(
        "a child process uses its parent's connections",
        "_io/port_blocking.py",
        "        self.pool.drop()\n        self._renewal_thread.in_child()\n       "
        " self._start()\n",
        "        pass\n",
        "tests/threads/test_fork.py::test_fork",
        "I11",
        daily="lock",
    ),
    Sown(
        "the renewal thread never ends",
        "_io/renewal_thread.py",
        "        if idle < LINGER_SECONDS and not port.pool.closed:\n",
        "        if not port.pool.closed:\n",
        "tests/threads/test_threads.py::test_an_idle_client_has_no_thread_and_a_closed_one_no_connection",
        "I10",
        daily="lock",
    ),
    Sown(
        "a revocation is not reported",
        "_core/pushes.py",
        '    b"revoked": _revoked,\n',
        '    b"revoked": lambda *_: None,\n',
        "tests/faults/test_loss.py::test_a_revoked_holder_is_told_soon",
        "I8",
        daily="lock",
    ),
    Sown(
        "the second push in one packet is not read",
        "_io/connection_blocking.py",
        "        while self.sound and (message := self._parsed()) is not INCOMPLETE:\n",
        "        if self.sound and (message := self._parsed()) is not INCOMPLETE:\n",
        "tests/conformance/test_pushes.py::test_every_revocation_of_one_packet_is_heard",
        "I8",
        daily="lock",
    ),
    Sown(
        "an undo goes out on another connection than its request",
        "_io/cleanup_queue.py",
        "        if undo_connection is not None and not _sent_behind(undo_connection, script,"
        " keys, args):\n",
        "        if undo_connection is not None:\n",
        "tests/pure/test_cleanup_queue.py::test_an_undo_goes_out_on_the_connection_of_its_request",
        "I9",
        daily="lock",
    ),
    Sown(
        "a deadline that counts the whole ttl: no drift",
        "_core/deadlines.py",
        "    return ttl - ttl * DRIFT_RATE - DRIFT_SECONDS\n",
        "    return ttl\n",
        "tests/pure/test_deadlines.py::test_a_holder_gives_up_before_the_server_does",
        "I2",
        daily="lock",
    ),
    Sown(
        "renewal goes on after the release",
        "_core/lock/release.py",
        "        hold.open = False\n"
        "        hold.released = True\n"
        "        renewing.renewals.discard(hold)\n",
        "        hold.released = True\n",
        "tests/conformance/test_renewal.py::test_renewal_stops_at_release",
        "I11",
        daily="lock",
    ),
    Sown(
        "one lock's derived keys in another slot",
        "_core/keys.py",
        '        return tuple(prefix + b"{" + lock + b"}" + suffix for suffix in suffixes)\n',
        "        return tuple(lock + suffix for suffix in suffixes)\n",
        "tests/pure/test_keys.py::test_all_keys_of_a_lock_share_its_slot_and_prefix",
        "I1",
        daily="lock",
    ),
    Sown(
        "a release of permits takes the newest, not what its own thread holds",
        "_handles/semaphore.py",
        "        for hold in sorted(holds, key=lambda each: each.unit != unit):\n",
        "        for hold in holds:\n",
        "tests/conformance/test_semaphore.py"
        "::test_a_release_takes_first_what_its_own_thread_or_task_holds",
        "I1",
        daily="semaphore",
    ),
    Sown(
        "a waiter joins its line after the others left it because the client is closed",
        "_io/port_blocking.py",
        "        if self.closing:  # its place came after the others in line had to leave\n"
        "            waiter.lose_place()\n"
        "            return\n",
        "",
        "tests/conformance/test_closing_race.py"
        "::test_a_place_in_line_that_comes_while_the_client_is_closed",
        "I10",
        daily="lock",
    ),
    Sown(
        "a waiter that gives up reads what it was given before it has left its cohort",
        "_core/lock/turns.py",
        "    line = waiter.line\n"
        "    if line is None:\n"
        "        return\n"
        "    hold = line.front\n"
        "    if isinstance(hold, Hold) and hold.request is request:\n"
        "        line.succeed(port, hold)\n"
        "    elif not line.leave(port, waiter):\n"
        "        given = waiter.given  # not before: another thread may have given it until now\n",
        "    line, given = waiter.line, waiter.given\n"
        "    if line is None:\n"
        "        return\n"
        "    hold = line.front\n"
        "    if isinstance(hold, Hold) and hold.request is request:\n"
        "        line.succeed(port, hold)\n"
        "    elif not line.leave(port, waiter):\n",
        "tests/threads/test_cohort_interrupts.py"
        "::test_a_turn_that_is_given_to_a_waiter_while_it_gives_up_is_given_back",
        "I9",
    ),
    Sown(
        "a quorum's lease is begun though its parts were lost before they formed it",
        "_core/quorum/lease.py",
        "        return max(self.port.now(), min(self.hold.deadline, self.reacquire_at))\n",
        "        return min(self.hold.deadline, self.reacquire_at)\n",
        "tests/threads/test_close_points.py::test_a_quorum_is_closed_at_every_point_of_a_turn",
        "I9",
    ),
)
