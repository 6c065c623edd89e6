"""Log compaction: merging many small log blocks into few, without touching base files."""
