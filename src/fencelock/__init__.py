"""Distributed locks for Python over Redis and Valkey."""
