"""Typed resources: one definition for the command line, the operator and the CRDs.

- what operations on a table took: `spent`, `controller.pod_meter`, `controller.table_metrics`
- LakeTable, LakeCatalog and LakeStore, parsing them: this package
- CRDs, what the API server refuses: `tools/crds.py`, `tools/openapi.py`, `table_rules`
- Iceberg in a LakeTable, which fields belong to which format: `iceberg`, `format_rules`
"""
