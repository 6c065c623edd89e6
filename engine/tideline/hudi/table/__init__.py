"""A Hudi table as files: its properties, file groups, markers and schema."""
