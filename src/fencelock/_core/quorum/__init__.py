"""A lock on a majority of independent servers."""
