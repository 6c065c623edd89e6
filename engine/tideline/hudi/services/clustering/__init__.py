"""Clustering: rewriting file groups into fewer, larger, sorted ones."""
