"""`kubectl tideline`: what LakeTables do and why, in a terminal. Reads the API server alone."""
