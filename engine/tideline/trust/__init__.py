"""The author of a value, and what follows: who may name an address, code or a file."""
