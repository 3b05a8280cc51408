"""What Django notes of the models: they have no table."""
