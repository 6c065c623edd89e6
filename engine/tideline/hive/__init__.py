"""Hive's metastore: its addresses, and how it is asked.

- `address`: which servers.
- `transport`: bytes to and from one of them, within limits of time and size.
- `wire`, `lookup`: what reading takes, in our own requests: the operator's image has no room for
  PyIceberg's classes of Hive's protocol.
- `connection`: these classes over the same transport, for everything else. Needs the extra `hive`.
"""
