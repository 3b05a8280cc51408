"""fencelock inside other frameworks: each module needs its framework, and nothing imports it.

``contrib.asgi``, ``contrib.celery`` and ``contrib.django`` say what they need when they are used
without it.
"""
