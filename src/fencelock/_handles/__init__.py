"""What the handles of both faces share: state, and how a call goes, over any port.

A face adds the public signatures, and runs or awaits.
"""
