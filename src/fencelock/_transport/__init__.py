"""From what the user brings (URL, client object, nothing) to private connections.

Rules of this folder:

- The user's own connections are never used: private ones are opened with the same settings.
- An answer belongs to the request before it. After any failure between the two a connection is
  used for nothing new.
- No client's hidden retry: only ``_core.ask`` repeats, under one deadline (I13).
"""
