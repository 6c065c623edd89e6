"""The report on a table before anything in it is changed."""
