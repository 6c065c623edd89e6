"""The order of rows, for both table formats: sorted parts and space-filling curves, in Arrow."""
