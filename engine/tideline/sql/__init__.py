"""SQL over tables, answered by DuckDB in this process.

- queries: DuckDB over a table's rows, the prompt: `session`, `formats.row_dataset`,
  `cli.query_engine`, `cli.sql_prompt`
"""

DUCKDB_MAJOR_MIN = 2
"""Earlier releases take NaN for less than any number in filters that they hand over."""
