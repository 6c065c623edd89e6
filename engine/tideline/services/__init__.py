"""What a table service is, of whichever format the table is."""
