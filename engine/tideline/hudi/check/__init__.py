"""`tideline check`: what is wrong with a table, how bad it is, and what mends it.

- what is wrong with a table: `run`
"""
