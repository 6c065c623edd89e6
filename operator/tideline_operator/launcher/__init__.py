"""Launchers carry operations out: local processes here, Jobs on Kubernetes later."""
