"""``fencelock top``: locks in a terminal, refreshed every second.

app.py      the table of locks, in an order that keys choose
detail.py   one lock: its holders, its line, its history; and the question for a reason
"""
