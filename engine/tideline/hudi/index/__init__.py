"""How rows find the file group that holds their key.

- whether a table has a bucket index, how many buckets: `bucket_recognition`,
  `hudi.write.index_choice`, `hudi.placement.stored_buckets`
- whether keys are unique in the whole table: `uniqueness`, `declaration`,
  `hudi.metadata_table.record_index`, `hudi.write.unique_keys`
- consistent hashing: `hash_ring`, `hashing_metadata`
"""
