"""The author of a value, and what follows: which authors may name an address, code or a file."""
