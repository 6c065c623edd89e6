"""Changing the version of a table, up or down.

- bringing a table to another version, what died of it: this package,
  `hudi.recovery.version_change`
"""
