"""Manifests and manifest lists: values, their Avro, reading them."""
