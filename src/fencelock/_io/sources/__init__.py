"""Turn the user's source (a URL, a client object, or nothing) into private connections."""
