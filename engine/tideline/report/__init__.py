"""A page about one table: what it is, how it is, what was done to it, and what that took."""
