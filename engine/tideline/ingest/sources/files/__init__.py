"""Files that land in a folder, or below a prefix of a bucket, as a source of rows.

- landing files: a listing, what of it is next: `listing`, `position`
- what of a landing prefix is listed, what leaves it: `after_ingest`, `settle`,
  `observe.source_looks`
"""
