"""The metadata table: Hudi's index of a table's files, kept in `.hoodie/metadata`."""
