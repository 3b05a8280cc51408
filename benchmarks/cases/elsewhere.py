"""A pair of one thread and of one task on Sentinel and on a Cluster, beside one server."""

from __future__ import annotations

from contestants import FLOOR, OURS, TASKS, THREADS
from crew import Crew
from measure import alternate
from report import MICROSECONDS, Result, one_of
from servers import Server, behind_sentinel, cluster_of_one, serving

from cases import Setting, on_one_core
from cases.uncontended import CHUNK, probe, sample

AT_MOST = 1.1  # times the same on one server
SENTINEL, CLUSTER = "on Sentinel", "on a Cluster"


def case(setting: Setting) -> list[Result]:
    """All on servers of our own, and on one core."""
    with serving(None) as one, behind_sentinel() as master, cluster_of_one() as node:
        places = {FLOOR: one, OURS: one, SENTINEL: master, CLUSTER: node}
        pids = tuple(server.pid for server in (one, master, node) if server.pid is not None)
        return [
            row
            for face in (THREADS, TASKS)
            for row in _rows(setting._replace(server_pids=pids), face, places)
        ]


def _rows(setting: Setting, face: str, places: dict[str, Server]) -> list[Result]:
    """Return the rows of one face."""
    who = {
        name: setting._replace(address=server.address).who(FLOOR if name == FLOOR else OURS, face)
        for name, server in places.items()
    }
    with Crew(1) as crew, on_one_core(crew, setting):
        for each in who.values():
            crew.all(probe, each)

        def measure(name: str) -> float:
            taken: float = crew.call(0, sample, who[name], CHUNK)
            return taken

        plan = setting.plan(100, 20)
        samples = alternate(measure, FLOOR, OURS, [SENTINEL, CLUSTER], plan)
    rows = []
    for name in (SENTINEL, CLUSTER):
        row = one_of(f"a pair {name}, {face}", MICROSECONDS, samples, name, FLOOR)
        times = samples.ratio(name, OURS)
        row.target, row.met = f"<= {AT_MOST}x one server", times <= AT_MOST
        row.details["x one server"] = round(times, 2)
        rows.append(row)
    return rows
