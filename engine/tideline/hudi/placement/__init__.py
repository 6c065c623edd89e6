"""Which file group a row goes to: by the workload, by the hash of its key, by what is stored."""
