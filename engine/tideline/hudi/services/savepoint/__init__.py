"""Savepoints: the state of a table at one instant, kept from cleaning until it is given up.

- savepoints: this package
"""
