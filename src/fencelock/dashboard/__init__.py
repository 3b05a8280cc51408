"""The dashboard: a page that shows the locks of a server, live.

    access.py     by which names it may be reached, which tokens open what
    security.py   refuses foreign hosts and origins; tokens; headers
    app.py        the addresses, each with what it answers
    feed.py       one look at the server a second, shared by all browsers
    board.py      one look, and what the views show of it; the numbers for Prometheus
    rows.py       one lock as the page has it
    graph.py      which client waits for which
    recent.py     what the looks of the last minutes saw
    assets/       the page itself, written by hand: nothing is built or loaded from elsewhere

``fencelock dashboard`` starts it. It needs ``fencelock[dashboard]``, and imports it here only.
"""
