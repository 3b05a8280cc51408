"""One file per command, or per group of commands that one reader needs together."""
