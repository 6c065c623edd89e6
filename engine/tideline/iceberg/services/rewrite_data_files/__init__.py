"""Rewriting data files: which, in what groups, to what sizes."""
