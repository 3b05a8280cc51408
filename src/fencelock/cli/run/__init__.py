"""Hold a lock while a command runs: the lock's holder, the command's supervisor, its processes."""
