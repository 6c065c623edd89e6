"""The controller: LakeTables of a Kubernetes cluster, kept as they are declared."""
