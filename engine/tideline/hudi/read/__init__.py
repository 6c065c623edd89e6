"""Reading Hudi tables: what a snapshot or a range of commits consists of, and its rows in Arrow."""
