"""Warm workers: pods that carry out one operation after the other."""
