"""Watches a barrier in a world, and says what broke.

It follows each generation on the server: who arrived, and how it ended. All who are told, are told
the same; a generation passes only when all its parties have come; nobody waits beside a dead one.
"""

from __future__ import annotations

from typing import Any

from fencelock._core.objects.barrier import wait_at
from fencelock._core.objects.state_wait import StateSpec
from fencelock.errors import BarrierBroken, OutcomeUnknown, ServerError
from verification.simulator.events import fields
from verification.simulator.monitor import UNSERVED_US_MAX, Monitor, Violation
from verification.simulator.network import Client, Task, World
from verification.simulator.server import Request
from verification.simulator.view import View

# Without any fault the message comes at once.
UNSERVED_US_MAX_FAULTLESS = 100_000
# A dead party breaks its generation within this: as barrier.lua counts, and one look later.
DEAD_US_MAX = 9_500_000

# What is kept beside the places of a barrier that was deleted.
PAST = frozenset({b"ended", b"at", b"ends"})


class Party:
    """One wait under way: whose it is, and the place that it got on the server."""

    def __init__(self, client: Client, task: Task) -> None:
        self.client = client
        self.task = task
        self.who = b""
        self.gen = b""
        self.index = -1
        self.gone = False
        self.died_us: int | None = None


class CrossingMonitor(Monitor):
    """Checks one barrier."""

    action_seconds: float = 0.0  # how long an action takes

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._parties: list[Party] = []
        self._ended: dict[bytes, tuple[str, int]] = {}  # how a generation ended, and when
        self._acted: dict[bytes, int] = {}
        self._acting: set[bytes] = set()  # generations whose action began
        self._deleted = False
        self._aborted: set[bytes] = set()  # generations that an operator aborted
        self._forgot = False

    # -- what processes report ------------------------------------------------------------------

    async def waits(self, client: Client, spec: StateSpec, timeout: float | None) -> str:
        """Wait as a face does, and judge how it ends: ``passed``, ``broken`` or ``unknown``."""
        world = self._world
        assert world.running is not None
        party = Party(client, world.running)
        self._parties.append(party)
        asked_at = client.port.now()

        async def action() -> None:
            if self.action_seconds:
                self._acting.add(party.gen)
                await client.port.sleep(client.port.now() + self.action_seconds)
            self.acts(party.gen)

        act = action if spec.acts else None
        try:
            index = await wait_at(client.port, spec, timeout, BarrierBroken, act)
        except BarrierBroken as broken:
            word = "broken"
            self._judge_broken(party, broken)
        except (ServerError, OutcomeUnknown) as error:
            word = "unknown"
            if not world.faulty:
                raise Violation("I12", f"without any fault: {error!r}") from error
        else:
            word = "passed"
            self._judge_passed(party, index, acts=spec.acts)
        finally:
            party.gone = True
        if timeout and self.is_punctual(client) and client.port.now() > asked_at + timeout + 0.1:
            raise Violation("I13", "a wait ended too late")
        return word

    def acts(self, gen: bytes) -> None:
        """Note that the action of a generation ran; it runs once, and before all pass."""
        self._acted[gen] = self._acted.get(gen, 0) + 1
        if gen in self._ended and not self._world.faulty:
            raise Violation("I4", "the action ran after its generation")
        if self._acted[gen] > 1 and not self._forgot:
            raise Violation("I4", f"the action ran {self._acted[gen]} times")

    def _judge_passed(self, party: Party, index: int, *, acts: bool) -> None:
        how, _ = self._ended.get(party.gen, ("none", 0))
        if how != "passed":
            raise Violation("I1", f"{party.client.name} passed, and its generation: {how}")
        if index != party.index:
            raise Violation("I4", f"{party.client.name} has index {index}, not {party.index}")
        if acts and self._acted.get(party.gen, 0) != 1:
            raise Violation("I4", f"the action ran {self._acted.get(party.gen, 0)} times")

    def _unjustified(self, reason: str) -> str:
        """Return what is wrong with a reason, if anything."""
        clients = self._world.clients
        heard = all(each.alive and not each.was_paused and not each.was_cut_off for each in clients)
        if reason == "dead" and heard:
            return "and everybody lives"
        if reason == "abort" and not (self._aborted or self._acted or self._acting):
            return "and nobody aborted it"
        if reason == "lost" and not self._deleted:
            return "and the server forgot nothing"
        return ""

    def _judge_broken(self, party: Party, broken: BarrierBroken) -> None:
        wrong = self._unjustified(broken.reason)
        if wrong and not self._forgot and not self._haunted:
            raise Violation("I7", f"{party.client.name}: {broken}, {wrong}")
        how, _ = self._ended.get(party.gen, ("none", 0))
        if how == "passed" and not self._forgot:
            raise Violation("I1", f"{party.client.name} did not pass with the others: {broken}")

    # -- the server's truth ---------------------------------------------------------------------

    def served(self, request: Request, before: View) -> None:
        """Note who arrived, and which generation ended."""
        super().served(request, before)
        if not request.name.startswith("barrier"):
            return
        state, kept = fields(self._world, request.keys[0]), fields(self._world, request.keys[3])
        places = {who: place for who, place in kept.items() if who not in PAST}
        if request.name == "barrier_arrive":
            self._arrived(request, places)
        if request.name == "barrier_change" and request.args[3] == b"delete":
            self._deleted = True
        if request.name == "barrier_change" and request.args[3] in {b"abort", b"delete"}:
            self._aborted |= {each.gen for each in self._parties if each.gen not in self._ended}
        ended = state.get(b"ended")
        if ended and ended not in self._ended:
            self._note_end(ended, state, places)

    def _arrived(self, request: Request, places: dict[bytes, bytes]) -> None:
        who = request.args[3]
        assert isinstance(who, bytes)
        for party in self._parties:
            if request.asker is party.task and not party.gone:
                party.who = who
        for party in self._parties:
            if party.who == who and who in places:
                gen, _, index = places[who].partition(b" ")
                party.gen, party.index = gen, int(index)

    def _note_end(self, gen: bytes, state: dict[bytes, bytes], places: dict[bytes, bytes]) -> None:
        broke = b" %b:" % gen in state.get(b"ends", b"")
        self._ended[gen] = ("broken" if broke else "passed", self._world.now_us)
        taken = [place.partition(b" ") for place in places.values()]
        indices = sorted(int(index) for of, _, index in taken if of == gen)
        if not broke and indices != list(range(int(state[b"parties"]))):
            raise Violation("I1", f"a generation passed with the indices {indices}")

    def flushed(self) -> None:
        """Note that the server forgot everything."""
        super().flushed()
        self._forgot = True

    def key(self) -> Any:
        """Return what of it decides about later violations."""
        parties = tuple(
            (each.task.who, each.who, each.gen, each.index, each.gone) for each in self._parties
        )
        return super().key(), parties, tuple(self._ended.items()), tuple(self._acted.items())

    # -- time and the end -----------------------------------------------------------------------

    def passing(self, instant: int) -> None:
        """See that nobody waits for what has ended, or beside a dead party (I6, I7)."""
        super().passing(instant)
        most = UNSERVED_US_MAX if self._world.faulty else UNSERVED_US_MAX_FAULTLESS
        for party in self._parties:
            self._beside_the_dead(party, instant)
            state = party.task.state
            waiting = state is not None and state.kind == "wait" and party.task.ready is None
            if party.gone or not waiting or not self.is_punctual(party.client):
                continue
            if not party.client.alive or self._haunted:
                continue
            ended = self._ended.get(party.gen)
            if ended is not None and instant - ended[1] > most:
                raise Violation("I6", f"{party.client.name} waits on, and it has {ended[0]}")

    def _beside_the_dead(self, party: Party, instant: int) -> None:
        if party.client.alive or party.gen in self._ended or not party.gen:
            return
        if party.died_us is None:
            party.died_us = self._world.now_us
        beside = [each for each in self._parties if each.gen == party.gen and each.client.alive]
        if instant - party.died_us > DEAD_US_MAX and any(not each.gone for each in beside):
            raise Violation("I7", f"a party waits beside {party.client.name}, who is dead")

    def end(self) -> None:
        """Check that no place is left (I9)."""
        super().end()
        if self._haunted or self._forgot:
            return
        living = {each.who for each in self._parties if each.client.alive and each.who}
        present = {each.gen for each in self._parties} - set(self._ended)
        for key, (value, _) in self._world.server.state:
            if key.endswith(b"~places"):
                for who, place in value.items():
                    if who in living and place.partition(b" ")[0] in present:
                        raise Violation("I9", f"{who!r} has left, and has a place")
            elif key.endswith(b"~watch"):
                for _, member in value:
                    if member.partition(b" ")[0] in living:
                        raise Violation("I9", f"{member!r} is still on the list")
