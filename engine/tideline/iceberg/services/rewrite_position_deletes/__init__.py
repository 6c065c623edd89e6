"""Rewriting position deletes: fewer and larger files, without what deletes nothing."""
