"""Table metadata and its parts as values: schemas, partition specs, snapshots, changes to them."""
