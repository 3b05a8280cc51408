"""What is made of locks, and states that many wait for."""
