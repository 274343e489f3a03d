"""Everything that can go wrong, at once, and an account that says what came of it; see `__main__`."""
