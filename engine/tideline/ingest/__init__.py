"""Ingest: files that arrive in a landing prefix become commits, each file exactly once."""
