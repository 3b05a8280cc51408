"""Objects built on locks, and states that many clients wait for."""
