"""Compaction: merging the log files of file groups into new base files."""
