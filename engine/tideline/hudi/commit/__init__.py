"""A commit of a write or a service: pending, in conflict or not, completed; what became of it.

- carrying a schema history on: `schema_carry`
- conflicts between writers: `conflict`
- a pending instant of this process, for writes and services: `own_instant`
"""
