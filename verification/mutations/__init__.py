"""Defects sown on purpose, and the check that finds each."""
