"""What Django looks for."""
