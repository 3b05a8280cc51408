"""``fencelock top``: locks in a terminal, refreshed every second.

watched.py   what the screens show: asked of the server, in a thread
order.py     which locks, and in which order
app.py       the table of locks, with keys
detail.py    one lock: its holders, its line, its history; and the question for a reason
"""
