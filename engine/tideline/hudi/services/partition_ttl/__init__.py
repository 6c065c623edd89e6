"""Partition TTL: dropping partitions that nobody wrote to for long enough."""
