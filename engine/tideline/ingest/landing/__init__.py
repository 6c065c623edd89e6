"""Landing files: which there are, which a table has already taken in, which come next."""
