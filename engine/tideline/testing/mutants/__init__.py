"""Faults planted in the product, one after the other: for each there is a test that notices it."""
