"""Restore: taking a table back to a savepoint.

- restore: this package
"""
