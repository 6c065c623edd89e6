"""Changing the version of a table, up or down."""
