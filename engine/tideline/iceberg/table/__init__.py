"""A table as a place: its files, and who decides what its newest metadata is.

- catalogs: opening them, their answers, requests: `catalog_opening`, `catalog_rest`,
  `catalog_http`, `catalog_files`
- what an Iceberg table may delete: `table_roots`
- the tables of a catalog or a folder, their LakeTables: `catalog_search`, `folder_search`,
  `decide.catalog_plan`, `local.catalog_tables`, `controller.owner_reconcile`,
  `controller.owned_tables`
"""
