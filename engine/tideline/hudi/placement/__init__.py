"""Which file group a row goes to: by the workload, by the hash of its key, by what is stored.

- which bucket a row goes to: `upsert_partitioner`, `hudi.index.bucket`
- which files a write touches: `file_choice`
"""
