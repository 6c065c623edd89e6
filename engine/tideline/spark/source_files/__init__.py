"""Files of others as DataFrames, and which of their rows cannot be taken in."""
