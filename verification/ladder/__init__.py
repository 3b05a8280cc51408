"""The ladder of broken locks: each historical lock, and a shortest schedule that breaks it."""
