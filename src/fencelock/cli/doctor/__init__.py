"""What ``fencelock doctor`` asks.

    questions.py     the table of all questions, in order, and the one that asks them
    server.py        what can be read of a server: a question asks nothing else
    report.py        what an answer is made of

The other files have the questions, by what they are about. A question is a line of the table and a
function that gets the server and returns its answer: ``ok``, ``warn``, ``fail``, ``unknown`` or, if
there is nothing to tell, an empty list.
"""
