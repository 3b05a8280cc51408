"""Defects in ports, transports, faces and errors: where real sockets, threads and servers matter.

Those of scripts and flows are sown beside the explorer's scenarios (``tests/flows``), which finds
them in the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.flows.sowing import Defect, Fault, Statement, never, nothing


@dataclass(frozen=True)
class Sown:
    """One defect, and the test that must fail with it.

    With a kind of object as ``daily`` that test must be one of those that run daily.
    """

    name: str
    change: Defect
    check: str
    breaks: str
    daily: str = ""


SOWN = (
    Sown(
        "a reply without a waiting request is given to the next request",
        Statement(
            "connection.received",
            """
            if not slot.done() and slot.set_result(message):
                read = (*read, slot)
            """,
            """
            while slot.done() and self._slots:
                slot, _, _ = self._slots.popleft()
            if not slot.done() and slot.set_result(message):
                read = (*read, slot)
            """,
        ),
        "tests/tasks/test_cancellation.py::test_gathered_cancellations_do_not_mix_up_answers",
        "I9",
        daily="lock",
    ),
    Sown(
        "a connection with an unread reply is used again",
        Statement(
            "pool.give", "if not connection.sound or connection.owed:", "if not connection.sound:"
        ),
        "tests/threads/test_pool.py::test_a_connection_with_an_unread_answer_is_not_kept",
        "I9",
        daily="lock",
    ),
    Sown(
        "a script that the server forgot is an error",
        Fault("script.unknown", never),
        "tests/conformance/test_errors.py::test_forgotten_scripts",
        "I12",
        daily="lock",
    ),
    Sown(
        "a reply is awaited beyond the caller's timeout",
        Fault(
            "attempt.answered_by", lambda _real, port, now, _give_up_at: now + port.server_timeout
        ),
        "tests/faults/test_timeouts.py::test_a_timeout_of_nothing_on_a_frozen_server",
        "I13",
        daily="lock",
    ),
    Sown(
        "a server's error is a plain no",
        Statement("engine.acquire", "failed(port, attempt, error)\nraise", "return None"),
        "tests/conformance/test_exclusive.py::test_trouble_while_trying_is_raised",
        "I12",
        daily="lock",
    ),
    Sown(
        "a child process uses its parent's connections",
        Fault("port.after_fork", nothing),
        "tests/threads/test_fork.py::test_fork",
        "I11",
        daily="lock",
    ),
    Sown(
        "the renewal thread never ends",
        Statement(
            "renewal_thread.ends",
            "idle < LINGER_SECONDS and not port.pool.closed",
            "not port.pool.closed",
        ),
        "tests/threads/test_threads.py::test_an_idle_client_has_no_thread_and_a_closed_one_no_connection",
        "I10",
        daily="lock",
    ),
    Sown(
        "a revocation is not reported",
        Fault("push.revoked", nothing),
        "tests/faults/test_loss.py::test_a_revoked_holder_is_told_soon",
        "I8",
        daily="lock",
    ),
    Sown(
        "a refused renewal is not reported",
        Fault("keeper.notify_refused", nothing),
        "tests/conformance/test_renewal.py::test_renewal_asks_with_its_own_id",
        "I8",
        daily="lock",
    ),
    Sown(
        "a refused renewal is not reported to the turn to which its lease was passed on",
        Statement("keeper.notify_refused", "(hold, *turns.get(hold, ()))", "(hold,)"),
        "tests/pure/test_renew.py"
        "::test_a_refusal_is_told_to_the_turn_to_which_the_lease_was_passed_on",
        "I8",
        daily="lock",
    ),
    Sown(
        "the second push in one packet is not read",
        Statement(
            "connection.drain",
            "while self.sound and (message := self._parsed()) is not INCOMPLETE:",
            "if self.sound and (message := self._parsed()) is not INCOMPLETE:",
        ),
        "tests/conformance/test_pushes.py::test_every_revocation_of_one_packet_is_heard",
        "I8",
        daily="lock",
    ),
    Sown(
        "an undo goes out on another connection than its request",
        Fault("cleanup.sent_behind", never),
        "tests/pure/test_cleanup_queue.py::test_an_undo_goes_out_on_the_connection_of_its_request",
        "I9",
        daily="lock",
    ),
    Sown(
        "a deadline that counts the whole ttl: no drift",
        Fault("validity", lambda _real, ttl: ttl),
        "tests/pure/test_deadlines.py::test_a_holder_gives_up_before_the_server_does",
        "I2",
        daily="lock",
    ),
    Sown(
        "renewal goes on after the release",
        Statement(
            "keeper.retire",
            """
            self.open = False
            self.released = True
            if self.bucket is None:
                renewing.renewals.unplaced.pop(self, None)
            else:
                renewing.renewals.discard(self)
            """,
            "self.released = True",
        ),
        "tests/conformance/test_renewal.py::test_renewal_stops_at_release",
        "I11",
        daily="lock",
    ),
    Sown(
        "one lock's derived keys in another slot",
        Statement("keys.derived", "b'%b{%b}' % (prefix, lock)", "lock"),
        "tests/pure/test_keys.py::test_all_keys_of_a_lock_share_its_slot_and_prefix",
        "I1",
        daily="lock",
    ),
    Sown(
        "a release of permits takes the newest, not what its own thread holds",
        Statement("semaphore.take", "sorted(holds, key=lambda each: each.unit != unit)", "holds"),
        "tests/conformance/test_semaphore.py"
        "::test_a_release_takes_first_what_its_own_thread_or_task_holds",
        "I1",
        daily="semaphore",
    ),
    Sown(
        "a waiter joins its line after the others left it because the client is closed",
        Statement("port.wait", "if self.closing:", "if False:"),
        "tests/conformance/test_closing_race.py"
        "::test_a_place_in_line_that_comes_while_the_client_is_closed",
        "I10",
        daily="lock",
    ),
    Sown(
        "a waiter that gives up reads what it was given before it has left its cohort",
        Statement(
            "tenure.give_up",
            """
            if tenure is not None and not tenure.leave(self):
                if tenure.spare is not None:
                    port.run_in_background(*tenure.spare.release)
                elif self.local:
                    self.asks = tenure.asks
            """,
            """
            spare = tenure and tenure.spare
            if tenure is not None and not tenure.leave(self):
                if spare is not None:
                    port.run_in_background(*spare.release)
                elif self.local:
                    self.asks = tenure.asks
            """,
        ),
        "tests/threads/test_interrupts.py"
        "::test_a_turn_that_is_given_to_a_waiter_while_it_gives_up_is_given_back",
        "I9",
    ),
    Sown(
        "a lease whose entry into the schedule was interrupted is kept after its release",
        Statement(
            "keeper.discard",
            """
            self._drop(self._filling, hold)
            self._forget_holder(hold)
            """,
            "self._drop(self._filling, hold)",
        ),
        "tests/strikes/test_every_point.py"
        "::test_a_renewal_that_is_struck_shortens_nothing[threads]",
        "I10",
    ),
)
