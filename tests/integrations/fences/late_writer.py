"""What the holder of the frozen holder's story does in its own process: write under the guard."""

import contextlib
from pathlib import Path

from fencelock.fences import FencingToken
from tests.integrations.fences.worlds import WORLDS


def write(kind: str, where: str, token: FencingToken, body: str) -> None:
    with contextlib.ExitStack() as stack:
        world = WORLDS[kind][0](Path(where), stack)
        session = world.open(world.levels[0])
        session.check(token)
        session.write(body)
        session.commit()
