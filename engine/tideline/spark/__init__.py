"""Everything that runs on Spark: the session, reads of tables, and the data side of writes.

The only package that imports pyspark. Importing it starts nothing; `tideline.spark_session` does.
It is refused with a version of PySpark that it was not written for.
"""

from tideline.spark.supported_version import refuse_other_versions

refuse_other_versions()
