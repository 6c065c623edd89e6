"""Reading Iceberg tables: which snapshot, what it consists of, its rows in Arrow.

- which snapshot an id, a name or a time means, with which columns: `snapshot_choice`
- its rows, by columns and conditions: `table_rows`
- what a range of snapshots did to rows: `change_plan`, `changes`
- its files and partitions, the table's snapshots, as Arrow tables: `listings`
"""
