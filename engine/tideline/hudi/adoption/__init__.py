"""The report on a table before anything in it is changed.

- the adoption report of a table, of an Iceberg table: this package, `iceberg.adoption`,
  `docs/adopting.md`
"""
