"""The metadata table: Hudi's index of a table's files, kept in `.hoodie/metadata`.

What it says: `partition` is what a partition is, `registry` names those that are kept,
`files_partition` lists files, `column_stats` and `partition_stats` have bounds of columns
(`indexed_columns`, as `column_row`, under keys of `hash_id`, early ones as `early_bounds` says),
`bloom_filters` has filters of keys,
`record_index` their places and `secondary_index` the values of rows (by the `touched_slices` of a
change), `record` is how records are stored, `many_records` and `key_runs` how they are held as
columns, `group_records` how they are dealt out to file groups.
How it is kept: `keep` at each change of the table, by `writer`; `bootstrap` makes one, `disable`
switches it off; `index_making` and `index_dropping` make and drop a single partition,
`begin_statistics` those of a new table; `altered_columns` says what a schema on read ends.
How it is read: `reader`. What Hudi keeps beside it:
`index_definitions`, `index_build`, which `index_build_ending` ends. How it lies on disk in each
layout: `form_by_commit` and `form_by_slice`, chosen by `reader`; what its commits say:
`commit_contents`.

- a metadata table: what a partition is, `files`, records as they are stored, reading, listings:
  `partition`, `registry`, `files_partition`, `record`, `reader`
- statistics of columns, and which columns have them: `column_stats`, `partition_stats`,
  `indexed_columns`
- bloom filters of the keys of base files: `bloom_filters`
- places of keys, and keys by values: `record_index`, `secondary_index`, `touched_slices`,
  `key_runs`
- keeping a metadata table, making one, switching it off: `keep`, `writer`, `bootstrap`, `disable`
- its instants and logs in versions 8 and 9, and in version 6: `form`, `form_by_commit`,
  `form_by_slice`
- making and dropping one partition: `index_making`, `build_instants`, `index_dropping`,
  `hudi.metadata_indexes`
- what statistics say of single files, for reads: `file_ranges`, `hudi.read.file_pruning`
"""
