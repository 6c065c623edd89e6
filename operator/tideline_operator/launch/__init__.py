"""Launchers carry operations out: processes of this machine, or Jobs on Kubernetes."""
