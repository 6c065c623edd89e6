"""Rollback: removing every byte that a failed write left."""
