"""Archival: old instants move out of the active timeline, so that it stays short.

- archival, merging archives: this package
"""
