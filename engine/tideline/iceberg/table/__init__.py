"""A table as a place: its files, and who decides what its newest metadata is."""
