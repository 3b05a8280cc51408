"""The flows of each topology. A port gets its own when it is made; no flow asks for the others."""
