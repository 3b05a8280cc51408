"""One lock: how it is asked for, held, renewed and given back."""
