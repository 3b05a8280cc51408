"""Instruments that show what fencelock keeps, and what breaks other locks. See README.md."""
