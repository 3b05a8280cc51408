"""From what the user brings (URL, client object, nothing) to private connections."""
