"""Record keys and partition paths: what makes them, how they are spelled, times in them.

- which types a write may give key columns: `key_types`
"""
