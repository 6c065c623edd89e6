"""Files that land in a folder, or below a prefix of a bucket, as a source of rows."""
