"""Rollback: removing every byte that a failed write left.

- rollback plans of other writers: `stored_plan`
- rollback of failed writes, removing leftovers: `recover`, this package
"""
