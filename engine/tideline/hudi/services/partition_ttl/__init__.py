"""Partition TTL: dropping partitions that no writer wrote to for long enough.

- partitions that expire: this package, `LakeTable.run("partition_ttl")`
"""
