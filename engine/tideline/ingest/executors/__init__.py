"""Executors as pods of Kubernetes, for sessions that run on one.

- Spark on Kubernetes: `kubernetes_pods`, `docs/spark-on-kubernetes.md`
- executors that a quota refuses: `executor_admission`
"""
