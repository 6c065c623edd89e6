"""Warm workers: pods that carry out one operation after the other.

- warm workers: the loop, assignments, one Spark session after the other: `warm_worker`,
  `assignments`, `ingest.operation.assignment`, `spark.session.kept_session`
"""
