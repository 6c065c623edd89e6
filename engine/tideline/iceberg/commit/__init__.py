"""Changing an Iceberg table: snapshots made, validated and published by optimistic commits."""
