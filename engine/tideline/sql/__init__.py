"""SQL over tables, answered by DuckDB in this process."""

DUCKDB_MAJOR_MIN = 2
"""Earlier releases take NaN for less than any number in filters that they hand over."""
