"""The order of rows, whatever the table format: sorted parts and space-filling curves, in Arrow."""
