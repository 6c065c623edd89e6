"""The Spark session: Java, the connector of S3, the Python workers."""
