"""Restore: taking a table back to a savepoint."""
