"""Everything that runs on Spark: the session, reads of tables, and the data side of writes.

The only package that imports pyspark. Importing it starts nothing; `tideline.spark_session` does.
"""
