"""From what was measured to a plan, on paper: how many masters carry so many locks.

Everything that nobody measured is a constant here, and is printed as an assumption.
"""

from __future__ import annotations

import math

Measured = dict[str, float]

LOCKS = 1_000_000  # held at the same time
RATE = 100_000  # acquisitions a second
TTL = 30.0
PERIOD = TTL / 3  # between two renewals of a lease
RECORD_SECONDS = 600.0  # that a record outlives its lease
LOAD = 0.5  # of a core that is planned with: the rest is for bursts, and a neighbour that failed
CONTENDED = 0.2  # of all acquisitions that wait in line first
NETWORK = 125e6  # bytes a second each way: 1 Gbit/s
MEMORY = 8e9  # bytes of a master; its replica has as many
PROCESSES = 200  # of clients
CONNECTIONS = 17  # of one process: 16 idle ones of threads, and what renews; a loop has one
MAXCLIENTS = 10_000  # a server's default

ROWS = (
    ("acquire + release, one packet each", "pair_us_single", "µs of the server"),
    ("acquire + release, pipelined", "pair_us_pipelined", "µs of the server"),
    ("acquisition from a line, with its release", "handoff_us", "µs of the server"),
    ("a pair's bytes to the server", "pair_bytes_in", "bytes"),
    ("a pair's bytes from the server", "pair_bytes_out", "bytes"),
    ("renewal, a command each, one packet each", "renew_us_single", "µs of the server"),
    ("renewal, a command each, pipelined", "renew_us_pipelined", "µs of the server"),
    ("a renewal's bytes to the server, a command each", "renew_bytes_in", "bytes"),
    ("leases renewed by one command, when batched", "renewed_a_command", "leases"),
    ("1,000 renewals in batches", "renewals_server_ms", "ms of the server"),
    ("1,000 renewals in batches", "renewals_client_ms", "ms of the client"),
    ("a renewal's bytes to the server, in batches", "renewals_bytes_in", "bytes"),
    ("leases lost meanwhile", "renewals_lost", ""),
    ("a held lock", "bytes_held", "bytes"),
    ("a released lock, for ten minutes", "bytes_record", "bytes"),
    ("a waiter among many of one lock", "bytes_waiter_of_one", "bytes"),
    ("the only waiter of a lock", "bytes_waiter_alone", "bytes"),
    ("a held semaphore with one holder", "bytes_semaphore", "bytes"),
    ("an event", "bytes_event", "bytes"),
)


Need = tuple[str, str, float, int]


def plan(found: Measured) -> list[Need]:
    """Return for each need: what it is, how it is computed, the sum, and the masters it takes."""
    return [*_work(found), *_room(found), *_wire(found)]


def _work(found: Measured) -> list[Need]:
    """Return what takes the processor."""
    alone, waited = RATE * (1 - CONTENDED), RATE * CONTENDED
    pair, handoff = found["pair_us_single"], found["handoff_us"]
    acquiring = (alone * pair + waited * handoff) / 1e6
    renewals, each = LOCKS / PERIOD, found["renew_us_pipelined"]
    batch = found["renewals_server_ms"]
    return [
        _need(
            "acquisitions, seconds of a core a second",
            f"{alone:,.0f} x {pair:.1f} µs + {waited:,.0f} x {handoff:.1f} µs",
            acquiring,
            LOAD,
        ),
        _need(
            "renewals, a command each",
            f"{renewals:,.0f} x {each:.1f} µs",
            renewals * each / 1e6,
            LOAD,
        ),
        _need(
            "renewals, in batches of one slot",
            f"{renewals / 1000:,.0f} x {batch:.1f} ms",
            renewals * batch / 1e6,
            LOAD,
        ),
        _need("both, a command each", "the first two", acquiring + renewals * each / 1e6, LOAD),
    ]


def _room(found: Measured) -> list[Need]:
    """Return what takes memory, in GB."""
    held, record = found["bytes_held"], found["bytes_record"]
    return [
        _need("memory held, GB", f"{LOCKS:,} x {held:.0f}", LOCKS * held / 1e9, MEMORY / 1e9),
        _need(
            "memory of records, a new name each time, GB",
            f"{RATE:,} x {RECORD_SECONDS:.0f} s x {record:.0f}",
            RATE * RECORD_SECONDS * record / 1e9,
            MEMORY / 1e9,
        ),
    ]


def _wire(found: Measured) -> list[Need]:
    """Return what takes the network, in MB a second, and connections."""
    renewals, pair, renewal = LOCKS / PERIOD, found["pair_bytes_in"], found["renew_bytes_in"]
    return [
        _need(
            "network in, MB/s",
            f"{RATE:,} x {pair:.0f} + {renewals:,.0f} x {renewal:.0f}",
            (RATE * pair + renewals * renewal) / 1e6,
            NETWORK * LOAD / 1e6,
        ),
        _need(
            "connections to each master",
            f"{PROCESSES} x {CONNECTIONS}",
            PROCESSES * CONNECTIONS,
            MAXCLIENTS * LOAD,
        ),
    ]


def _need(what: str, how: str, total: float, of_one: float) -> Need:
    return what, how, total, math.ceil(total / of_one)


def printed(about: str, counted: dict[str, str], found: Measured) -> str:
    """Return all of it as Markdown."""
    lines = [f"Measured on {about}.", "", "| use | commands |", "| --- | --- |"]
    lines += [f"| {use} | {sent} |" for use, sent in counted.items()]
    lines += ["", "| what | measured | |", "| --- | --- | --- |"]
    lines += [f"| {what} | {_shown(found[key])} | {unit} |" for what, key, unit in ROWS]
    rates = {
        "one packet each": "pair_us_single",
        "pipelined": "pair_us_pipelined",
        "from a line": "handoff_us",
    }
    lines += ["", "| a core of the server, full | a second |", "| --- | --- |"]
    lines += [f"| pairs, {way} | {1e6 / found[key]:,.0f} |" for way, key in rates.items()]
    lines += ["", f"{LOCKS:,} locks, {RATE:,} acquisitions/s, ttl {TTL:.0f} s:", ""]
    lines += ["| need | computed | sum | masters |", "| --- | --- | --- | --- |"]
    lines += [f"| {a} | {b} | {_shown(c)} | {d} |" for a, b, c, d in plan(found)]
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"
