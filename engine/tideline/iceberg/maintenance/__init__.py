"""Care for Iceberg tables beyond their data files: snapshots, orphans, manifests, deletes."""
