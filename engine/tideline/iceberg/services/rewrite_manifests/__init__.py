"""Rewriting manifests: partitions lie together in few of them."""
