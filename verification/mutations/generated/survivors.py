"""Mutants that no test kills, and why each does no harm.

The key is the mutant's: file, line before, line after. A reason is looked at by a person, once.
"""

REASONS: dict[str, str] = {}
