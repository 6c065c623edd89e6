"""Partition TTL: dropping partitions that no writer wrote to for long enough."""
