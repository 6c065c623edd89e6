"""Removing orphan files: those in the table's folders that no metadata leads to."""
