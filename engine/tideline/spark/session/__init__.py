"""The Spark session: Java, the connector of S3, the Python workers.

- the Spark session, Java: `spark_session`, `java_runtime`
- an archive of Spark's classes: `class_archive`, `make_class_archive`
"""
