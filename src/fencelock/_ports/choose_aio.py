"""Which port a client's source needs, for asyncio: that of one server, or of a quorum."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fencelock._core.inspect import home_prefix
from fencelock._ports.aio import AioPort
from fencelock._transport.source import resolve


class PortMaker(NamedTuple):
    """Makes a loop's port; ``label`` is what people call the source."""

    make: Callable[[], AioPort]
    label: str
    quorum: bool


def port_maker(source: object, *, prefix: str, patience: float, node_timeout: float) -> PortMaker:
    """Return what makes a loop's port; TypeError or ValueError says what is wrong with a source."""
    home = home_prefix(prefix)
    if isinstance(source, (list, tuple, str)) or source is None:
        from fencelock._transport.quorum import several  # noqa: PLC0415 - rarely needed

        nodes = several(source, asynchronous=True)
        if nodes is not None:
            from fencelock._ports.quorum_aio import AioQuorum  # noqa: PLC0415 - as above

            def make() -> AioPort:
                return AioQuorum(
                    nodes, prefix=prefix, home=home, patience=patience, node_timeout=node_timeout
                )

            return PortMaker(make, nodes.label, quorum=True)
    one = resolve(source, asynchronous=True)
    return PortMaker(lambda: AioPort(one, home=home, patience=patience), one.label, quorum=False)
