"""The flows that fit each topology. A port gets its own when it is made, and no flow asks again."""
