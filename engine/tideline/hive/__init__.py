"""Hive's metastore: its addresses, and a connection, with PyIceberg's classes of its protocol.

- `address`: which servers.
- `connection`: one connection, within limits of time and size.
"""
