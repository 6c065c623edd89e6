"""The wing of Hudi tables: what they are, and every change to them, without Spark.

- opening a table, making a new one: `open_table`, `new_table`
"""
