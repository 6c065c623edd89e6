"""Executors as pods of Kubernetes, for sessions that run on one."""
