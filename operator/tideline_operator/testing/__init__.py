"""What the operator's tests share.

- a Kubernetes API server for tests: `api_server`
"""
