"""Which port a client's source needs, for threads: that of one server, or of a quorum."""

from __future__ import annotations

from fencelock._core.inspect import home_prefix
from fencelock._ports.blocking import BlockingPort
from fencelock._transport.source import resolve


def port_for(source: object, *, prefix: str, patience: float, node_timeout: float) -> BlockingPort:
    """Return the port for a source; TypeError or ValueError says what is wrong with it."""
    home = home_prefix(prefix)
    if isinstance(source, (list, tuple, str)) or source is None:
        from fencelock._transport.quorum import several  # noqa: PLC0415 - rarely needed

        nodes = several(source, asynchronous=False)
        if nodes is not None:
            from fencelock._ports.quorum_blocking import BlockingQuorum  # noqa: PLC0415 - as above

            return BlockingQuorum(
                nodes, prefix=prefix, home=home, patience=patience, node_timeout=node_timeout
            )
    return BlockingPort(resolve(source, asynchronous=False), home=home, patience=patience)
