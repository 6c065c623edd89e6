"""Topics of Kafka as a source of rows.

- values: `declared`, `records`, `position`, `offsets`, `credentials`
- talking to brokers: `broker`
- values of records as rows: `values` has a reader for each format, which gives what `decoded` says:
  `json_rows`; `avro_rows` by `schema_id`, `schema_registry` and `avro_references`; `change_events`
  by `connect_types` and `connect_avro`; `row_changes` by `row_change_forms`
- where both meet the commit: `reader`, `tombstones`
"""
