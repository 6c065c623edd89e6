"""A Hudi table as files: its properties, file groups, markers and schema.

- a listing of a table's folder, tables that overlap: `folder_listing`, `location_conflict`
- `hoodie.properties`: `properties`, `table_config`
- reading a setting, typed; fields of configs that settings give: `settings`
- creating a table, settings it keeps for its writers: `create`, `kept_settings`
- an open table: properties, instants, commits, files, schema: `hoodie_table`, `table_properties`,
  `table_instants`, `table_commits`, `table_files`, `table_schemas`
- which files make up the table, how many: `file_system_view`, `file_counts`
- schema and its evolution: `schema`, `schema_evolution`
- ids of columns, versions of a schema: `internal_schema`, `schema_history`,
  `schema_history_reader`, `schema_reconciliation`
- which name a column has in a file: `stored_names`
- numbers that became text or decimals: `retyped_number`
- markers: `markers`
- bootstrapped tables: `bootstrap_index`, `hudi.file_group.bootstrapped_rows`
"""
