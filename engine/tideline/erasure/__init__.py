"""Erasure: rows leave every file of a Hudi table, and a proof counts what files still hold.

A delete alone is a new version of a file: older versions, logs and savepoints keep the rows.

- erasing rows, the proof: `execute`, `prove`, `docs/erasing.md`
"""
