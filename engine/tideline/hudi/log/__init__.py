"""Log files of merge-on-read tables: their blocks as Arrow, scanned and merged per file slice."""
