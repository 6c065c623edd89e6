"""The write path: planning (pure) and the Arrow handles that turn rows into base files."""
