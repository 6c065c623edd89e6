"""The order of rows, for both table formats: sorted parts and space-filling curves, in Arrow.

- sorting in parts, space-filling curves: this package
"""
