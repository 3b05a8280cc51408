"""What ``fencelock doctor`` checks, by what it is about."""
