"""Expiring snapshots: forgetting those nobody keeps, and deleting what only they led to."""
