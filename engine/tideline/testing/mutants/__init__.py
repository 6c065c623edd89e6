"""Faults planted in the product, one after another: for each there is a test that notices it."""
