"""Launchers carry operations out: processes of this machine, or Jobs on Kubernetes.

- the Job of an operation, what became of it: `driver_job`, `engine_pod`, `job_outcome`
"""
