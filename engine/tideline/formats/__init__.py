"""Bytes to values and back, for the file formats inside a Hudi table. No input or output here."""
