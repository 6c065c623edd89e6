"""Typed resources: one definition for the command line, the operator and the CRDs."""
