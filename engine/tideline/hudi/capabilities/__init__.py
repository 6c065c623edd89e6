"""What a table is, read once, and what Tideline may therefore do with it."""
