"""Writing Hudi tables on Spark: keys, their lookup, one task per file group.

- a write on Spark: `engine`, `key_lookup`
"""
