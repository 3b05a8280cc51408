"""Mutants that a tool makes, and the tests that kill them."""
