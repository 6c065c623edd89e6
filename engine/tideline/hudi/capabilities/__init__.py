"""What a table is, read once, and what Tideline may therefore do with it.

- what a table is, what may be done with it: `table_capabilities`, `rules`, `guard`
- whether a Flink job wrote the table: `flink_writers`
"""
