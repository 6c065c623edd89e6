"""SQL over tables, answered by DuckDB in this process."""
