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

ROWS = (
    ("acquire + release, one packet each", "pair_us_single", "µs of the server"),
    ("acquire + release, pipelined", "pair_us_pipelined", "µs of the server"),
    ("acquisition from a line, with its release", "handoff_us", "µs of the server"),
    ("a pair's bytes to the server", "pair_bytes_in", "bytes"),
    ("a pair's bytes from the server", "pair_bytes_out", "bytes"),
    ("renewal, a command each, one packet each", "renew_us_single", "µs of the server"),
    ("renewal, a command each, pipelined", "renew_us_pipelined", "µs of the server"),
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


def plan(found: Measured) -> list[tuple[str, str, float, int]]:
    """Return for each need: what it is, how it is computed, the sum, and the masters it takes."""
    alone, waited = RATE * (1 - CONTENDED), RATE * CONTENDED
    pair, handoff = found["pair_us_single"] / 1e6, found["handoff_us"] / 1e6
    acquiring = alone * pair + waited * handoff
    renewals = LOCKS / PERIOD
    single = renewals * found["renew_us_pipelined"] / 1e6
    batched = renewals / 1000 * found["renewals_server_ms"] / 1000
    held = LOCKS * found["bytes_held"]
    records = RATE * RECORD_SECONDS * found["bytes_record"]
    received = RATE * found["pair_bytes_in"] + renewals * found["renewals_bytes_in"]
    return [
        _need(
            "acquisitions, seconds of a core a second",
            f"{alone:,.0f} x {pair * 1e6:.1f} µs + {waited:,.0f} x {handoff * 1e6:.1f} µs",
            acquiring,
            LOAD,
        ),
        _need(
            "renewals, a command each",
            f"{renewals:,.0f} x {found['renew_us_pipelined']:.1f} µs",
            single,
            LOAD,
        ),
        _need(
            "renewals, in batches of one slot",
            f"{renewals / 1000:,.0f} x {found['renewals_server_ms']:.1f} ms",
            batched,
            LOAD,
        ),
        _need("both, a command each", "the first two", acquiring + single, LOAD),
        _need(
            "memory held, GB", f"{LOCKS:,} x {found['bytes_held']:.0f}", held / 1e9, MEMORY / 1e9
        ),
        _need(
            "memory of records, a new name each time, GB",
            f"{RATE:,} x {RECORD_SECONDS:.0f} s x {found['bytes_record']:.0f}",
            records / 1e9,
            MEMORY / 1e9,
        ),
        _need(
            "network in, MB/s",
            f"{RATE:,} x {found['pair_bytes_in']:.0f} + {renewals:,.0f} x"
            f" {found['renewals_bytes_in']:.0f}",
            received / 1e6,
            NETWORK * LOAD / 1e6,
        ),
    ]


def _need(what: str, how: str, total: float, of_one: float) -> tuple[str, str, float, int]:
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
