"""The write path: planning (pure) and the Arrow handles that turn rows into base files.

- how a table spells its keys and partition paths: `key_spelling`, `hudi.keys.stored_spelling`
- deleting rows that match a condition: `matched_rows`
- write settings, the operation they name: `config`, `hudi.file_group.file_settings`,
  `hudi.index.index_settings`, `planned_write`, `table_writer`
- the steps of a write: `execute`, `write_by_location`, `write_by_hash`, `replace_file_groups`
- the transaction around it, its outcomes: `commit_write`, `transaction`,
  `hudi.commit.completion`, `hudi.commit.outcome`
- tokens of writes: `token`, `hudi.timeline.archived_tokens`
- what both engines do with a batch: `batch_rules`, `hudi.file_group.stored_key_lookup`,
  `bucket_write`, `hudi.keys.row_keys`
- parts of a write, what does them: `work_parts`, `spark.write.part_tasks`
"""
