"""Whom a value comes from, and what follows from that: who may name an address, code or a file."""
